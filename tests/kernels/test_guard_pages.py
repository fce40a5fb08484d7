"""C programs that find out-of-bounds accesses, undefined behaviour and data races in the C code."""

import re

import pytest

from reference.c_programs import BASELINE, CC, CSRC, build, jobs, run

SANITIZERS = {
    "plain": [],
    "sanitized": ["-g1", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "threads": ["-g1", "-O1", "-fsanitize=thread"],
}

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")


def needs(kind, folder):
    """Skip if the compiler does not have this sanitizer."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    if (
        run(CC, *SANITIZERS[kind], source, "-o", folder / "empty").returncode
        or run(folder / "empty").returncode
    ):
        pytest.skip(f"the compiler cannot build programs with {SANITIZERS[kind]}")


@pytest.mark.c_programs
@pytest.mark.parametrize(("kind", "combinations"), [("plain", 1), ("sanitized", 4)])
def test_no_access_past_either_end(kind, combinations, tmp_path):
    """Sanitized programs are twenty times slower, so each shape runs in one of several combinations."""
    needs(kind, tmp_path)
    binary = build(tmp_path, "guard_pages.c", SANITIZERS[kind])
    assert run(binary, "crash").returncode != 0  # the guard works
    done = run(binary, combinations)
    assert done.returncode == 0, done.stderr
    shapes = dict(line.split() for line in done.stdout.splitlines())
    dense, others = 2 * 2 * 40 * (40 + 8), 8 * 8 * 12 + 2
    everywhere = 2 * (dense + others - 2) // combinations + 4  # the two wide shapes run at both ends
    assert all(abs(int(count) - everywhere) <= 2 for count in shapes.values())
    assert combinations > 1 or set(shapes.values()) == {str(everywhere)}


@pytest.mark.c_programs
def test_threads_do_not_race(tmp_path):
    needs("threads", tmp_path)
    if "clang" in run(CC, "--version").stdout:
        pytest.skip("the substitute OpenMP library implements only the calls that GCC generates")
    # One instruction set: data shared by threads are in files that are compiled once.
    binary = build(tmp_path, "thread_races.c", SANITIZERS["threads"], threads=["-fopenmp"], levels=BASELINE)
    assert run(binary, "race").returncode != 0  # the sanitizer sees a race
    done = run(binary)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "same sums\n"


def test_every_c_file_is_built():
    """The programs link the files that a build of the package compiles."""
    listed = set(re.findall(r"'(?:\w+/)?(\w+\.c)'", (CSRC / "meson.build").read_text()))
    assert listed == {source.name for source, _, _ in jobs({"baseline": []})} | {"half_normal_cells.c"}
