"""Out-of-bounds accesses, undefined behaviour and races in the C code, by programs in C."""

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
    """Skip where the compiler has no such sanitizer."""
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
    """Sanitized programs are twenty times slower: each shape at one end, in one of two instruction sets."""
    needs(kind, tmp_path)
    binary = build(tmp_path, "guard_pages.c", SANITIZERS[kind])
    assert run(binary, "crash").returncode != 0  # the guard works
    done = run(binary, combinations)
    assert done.returncode == 0, done.stderr
    shapes = dict(line.split() for line in done.stdout.splitlines())
    dense, others = 2 * 2 * 40 * (40 + 8), 8 * 8 * 12 + 2
    everywhere = 2 * (dense + others - 2) // combinations + 4  # the two wide ones always, at either end
    assert all(abs(int(count) - everywhere) <= 2 for count in shapes.values())
    assert combinations > 1 or set(shapes.values()) == {str(everywhere)}


@pytest.mark.c_programs
def test_threads_do_not_race(tmp_path):
    needs("threads", tmp_path)
    if "clang" in run(CC, "--version").stdout:
        pytest.skip("the stand-in for the OpenMP library knows the calls that GCC makes")
    # One instruction set: what threads share is in the files that are compiled once.
    binary = build(tmp_path, "thread_races.c", SANITIZERS["threads"], threads=["-fopenmp"], levels=BASELINE)
    assert run(binary, "race").returncode != 0  # the sanitizer sees a race
    done = run(binary)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "same sums\n"


def test_every_c_file_is_built():
    """Files that a build of the package compiles are those that the programs link."""
    listed = set(re.findall(r"'(?:\w+/)?(\w+\.c)'", (CSRC / "meson.build").read_text()))
    assert listed == {source.name for source, _, _ in jobs({"baseline": []})}
