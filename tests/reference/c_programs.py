"""C programs linked with the package's C sources, built with its flags or with sanitizers."""

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dperm._kernels import row_kernels

TESTS = Path(__file__).parents[1]
CSRC = TESTS.parent / "csrc"
PROGRAMS = TESTS / "kernels"
# None where the sources are not next to the tests.
CC = shutil.which(os.environ.get("CC", "cc")) if CSRC.is_dir() else None
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
# As in csrc/meson.build.
AS_BUILT = ["-O3", "-fopenmp-simd", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
BASELINE = {"baseline": ["-DVECTOR_BYTES=16"]}
LEVELS = dict(BASELINE)
if platform.machine() in ("x86_64", "AMD64"):
    LEVELS["avx2"] = ["-DVECTOR_BYTES=32", "-march=x86-64-v3"]
    LEVELS["avx512"] = ["-DVECTOR_BYTES=32", "-march=x86-64-v4", "-mprefer-vector-width=512"]


def run(*command, timeout=1200, **keywords):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout, **keywords
    )


def sources():
    """Every C file of the package, new ones included."""
    return sorted(CSRC.rglob("*.c"))


def jobs(levels):
    """``(source, name, flags)`` of every object; instance files once per instruction set."""
    dispatch = ["-DHAVE_X86_LEVELS"] if len(levels) > 1 else []
    for source in sources():
        if source.stem.endswith("_instances"):
            for level, flags in levels.items():
                yield source, f"{source.stem}-{level}", [*flags, f"-DKERNEL_LEVEL={level}"]
        else:
            yield source, source.stem, dispatch


def compile_object(folder, compiler, source, name, flags):
    target = folder / f"{name}.o"
    done = run(*compiler, *WARNINGS, *flags, "-I", CSRC, "-c", source, "-o", target)
    assert done.returncode == 0, done.stderr
    return target


def written_cells(folder):
    """The C file that the build writes."""
    cells = folder / "half_normal_cells.c"
    done = run(sys.executable, CSRC / "random" / "half_normal_cells.py", cells)
    assert done.returncode == 0, done.stderr
    return cells


def build(
    folder, program, flags=(), *, threads=(), libraries=(), compiler=(CC,), archiver=("ar",), levels=LEVELS
):
    """Build the program ``tests/kernels/<program>``, linked with the C sources.

    flags: for all files, in addition to those of the build. threads: flags for the program and for all files
    except instances, which do not use threads. libraries: for the linker. Instruction sets that this
    processor lacks are only linked, so they are not optimised.
    """
    flags = [*AS_BUILT, *flags]
    idle = tuple(f"_instances-{level}" for level in levels if level not in row_kernels.instruction_sets())

    def flags_of(name):
        if name.endswith(idle):
            return [*AS_BUILT, "-O0"]
        return flags if "_instances-" in name else [*flags, *threads]

    work = [(source, name, [*flags_of(name), *extra]) for source, name, extra in jobs(levels)]
    work.append((written_cells(folder), "half_normal_cells", flags))
    work.append((PROGRAMS / program, "program", [*flags, *threads]))
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: compile_object(folder, compiler, *job), work))
    archive, binary = folder / "libdperm.a", folder / "program"
    done = run(*archiver, "rcs", archive, *objects[:-1])
    assert done.returncode == 0, done.stderr
    done = run(*compiler, *flags, objects[-1], archive, *libraries, "-lm", "-lpthread", "-o", binary)
    assert done.returncode == 0, done.stderr
    return binary
