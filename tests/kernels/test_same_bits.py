"""The same bits on every processor: x86 instruction sets here, NEON through an emulator."""

import re
import shutil

import pytest

from dperm._kernels import row_kernels
from reference.c_programs import BASELINE, CC, LEVELS, build, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CC is None, reason="no C compiler")]
ARM = "aarch64-linux-gnu"
ARM_TOOLS = (f"{ARM}-gcc", f"{ARM}-ar", f"{ARM}-objdump")
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The program for this machine, single-threaded without OpenMP."""
    return build(tmp_path_factory.mktemp("native"), "same_bits.c")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """The command that runs the program on an emulated 64-bit ARM processor, with OpenMP."""
    missing = [tool for tool in ARM_TOOLS if shutil.which(tool) is None]
    if missing or EMULATOR is None:
        pytest.skip(f"not installed: {', '.join(missing or ['qemu-aarch64'])} (Debian: gcc-{ARM}, qemu-user)")
    binary = build(
        tmp_path_factory.mktemp("arm"),
        "same_bits.c",
        threads=["-fopenmp"],
        libraries=["-fopenmp"],
        compiler=(f"{ARM}-gcc",),
        archiver=(f"{ARM}-ar",),
        levels=BASELINE,
    )
    return EMULATOR, "-L", f"/usr/{ARM}", binary


def fingerprints(*command):
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_cases_say_something(native):
    """Different cases give different numbers, and few of them only zeros or non-finite ones."""
    lines = fingerprints(native, "baseline")
    cases = [re.fullmatch(r"(.*) ([0-9a-f]{16}) \((\d+) of (\d+) .*\)", line).groups() for line in lines]
    assert len(cases) > 1500
    assert len({fingerprint for _, fingerprint, _, _ in cases}) > len(cases) / 3
    nothing = [name for name, _, counted, _ in cases if counted == "0"]
    assert len(nothing) < len(cases) / 50, nothing


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("level", [level for level in LEVELS if level in row_kernels.instruction_sets()])
def test_instruction_sets_here(native, level, threads):
    assert fingerprints(native, level, threads) == fingerprints(native, "baseline")


def test_arm_in_an_emulator(native, emulated):
    assert fingerprints(*emulated, "baseline", 3) == fingerprints(native, "baseline")


def test_arm_code_has_vectors_and_does_not_contract(emulated):
    """The loops are compiled for NEON, without fused multiply-add."""
    folder = emulated[-1].parent
    objects = sorted(folder.glob("dense_*_instances-baseline.o"))
    code = run(f"{ARM}-objdump", "-d", "--no-show-raw-insn", *objects).stdout
    count = {name: len(re.findall(rf"\t{name}\tv\d+\.(?:2d|4s)", code)) for name in ("fmul", "fadd", "add")}
    assert min(count.values()) > 100, count
    assert not re.findall(r"\t(fn?m(?:add|sub)|fml[as])\t", code)
