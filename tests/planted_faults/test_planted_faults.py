"""The tests fail where the sources are wrong: faults are planted in a copy, and each must be caught."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import dperm
from planted_faults.faults import PYTHON, C, Fault
from reference.source_code import ROOT

BUILD_TOOLS = ("cc", "cython", "meson", "ninja")
MODULES = ("record_kernels", "row_kernels", "samplers")
#: A build that takes a fraction of the time, with the same results: one instruction set, less optimisation.
QUICK_BUILD = [
    Fault("", "csrc/meson.build", "if host_machine.cpu_family() == 'x86_64'", "if false", ""),
    Fault("", "csrc/meson.build", "'-O3'", "'-O1'", ""),
]
one_by_one = pytest.mark.parametrize("fault", PYTHON, ids=lambda fault: fault.what)


def plant(fault, sources):
    """Change the file in a copy of the sources, and return its original text."""
    path = sources / fault.file
    text = path.read_text(encoding="utf-8")
    assert text.count(fault.text) == 1, f"update the planted fault: {fault.file} has no single {fault.text!r}"
    path.write_text(text.replace(fault.text, fault.planted), encoding="utf-8")
    return text


def copied_package(folder):
    """A copy of the package with its compiled modules, in ``folder/src``."""
    package = folder / "src" / "dperm"
    shutil.copytree(Path(dperm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in MODULES:
        compiled = Path(importlib.util.find_spec(f"dperm._kernels.{module}").origin)
        if not (package / "_kernels" / compiled.name).exists():
            shutil.copy(compiled, package / "_kernels")
    return folder


def run(*command, **keywords):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **keywords)


def outcome(folder, tests):
    """ "passed", "failed" or what else happened to tests of the package in a folder."""
    paths = os.pathsep.join([str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run(
        *(sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider", *tests),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return {0: "passed", 1: "failed"}.get(done.returncode, done.stdout + done.stderr)


@pytest.mark.parametrize("fault", [*PYTHON, *C], ids=lambda fault: fault.what)
def test_the_text_to_change_occurs_once(fault):
    """Fast, so that whoever changes it sees that the fault must follow."""
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.text) == 1
    assert (ROOT / fault.caught_by.partition("::")[0]).exists()


@pytest.mark.slow
@one_by_one
def test_a_fault_in_python_is_caught(fault, tmp_path):
    plant(fault, copied_package(tmp_path))
    assert outcome(tmp_path, [fault.caught_by]) == "failed"


@pytest.mark.slow
def test_nothing_is_caught_without_a_fault(tmp_path):
    copied_package(tmp_path)
    imported = run(
        *(sys.executable, "-c", "import dperm; print(dperm.__file__)"),
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
    )
    assert Path(imported.stdout.strip()).is_relative_to(tmp_path)
    assert outcome(tmp_path, sorted({fault.caught_by for fault in PYTHON})) == "passed"


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, BUILD_TOOLS)), reason=f"needs {', '.join(BUILD_TOOLS)}")
def test_faults_in_c_are_caught(tmp_path):
    """One after the other, in a build that compiles anew what each changes."""
    sources, package = tmp_path / "sources", copied_package(tmp_path)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in ("csrc", "src"):
        shutil.copytree(ROOT / folder, sources / folder, ignore=ignored)
    shutil.copy(ROOT / "meson.build", sources)
    for change in QUICK_BUILD:
        plant(change, sources)
    done = run("meson", "setup", "--buildtype=release", sources / "build", sources)
    assert done.returncode == 0, done.stdout + done.stderr

    def outcome_when_built(tests):
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        built = [f"src/dperm/{module}{suffix}" for module in ("row_kernels", "samplers")]
        done = run("ninja", "-C", sources / "build", *built)
        assert done.returncode == 0, done.stdout
        for module in built:
            shutil.copy(sources / "build" / module, package / "src" / "dperm" / "_kernels")
        return outcome(package, tests)

    assert outcome_when_built(sorted({fault.caught_by for fault in C})) == "passed"
    for fault in C:
        original = plant(fault, sources)
        assert outcome_when_built([fault.caught_by]) == "failed", fault.what
        (sources / fault.file).write_text(original, encoding="utf-8")
