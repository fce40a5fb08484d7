"""The compiled modules declare that they do not need the GIL, and compile for free-threaded Python."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "src" / "dperm" / "_kernels"
CSRC = KERNELS.parents[2] / "csrc"
CC = shutil.which("cc")
modules = pytest.mark.parametrize("source", sorted(KERNELS.glob("*.pyx")), ids=lambda path: path.stem)


@modules
def test_free_threading_is_declared(source):
    directives = source.read_text().splitlines()[0]
    assert directives.startswith("# cython:")
    assert "freethreading_compatible=True" in directives


@modules
@pytest.mark.skipif(sys.version_info < (3, 13), reason="needs the headers of Python 3.13 or later")
@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_compiles_for_free_threaded_python(source, tmp_path):
    pytest.importorskip("Cython")
    generated = tmp_path / f"{source.stem}.c"
    cython = [sys.executable, "-m", "cython", "-3", str(source), "-o", str(generated)]
    subprocess.run(cython, check=True, cwd=KERNELS.parents[1])
    assert "Py_MOD_GIL_NOT_USED" in generated.read_text()
    headers = ["-I", sysconfig.get_path("include"), "-I", str(CSRC)]
    subprocess.run(
        [CC, "-std=c11", "-fsyntax-only", "-DPy_GIL_DISABLED=1", *headers, str(generated)], check=True
    )


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has the lock")
def test_importing_does_not_enable_the_gil():
    program = "import sys, dperm._kernels; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
