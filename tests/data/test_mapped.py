"""Memory maps are read in place through our own mappings; files that shrink or change are an error."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dperm
from dperm import Objective
from dperm._kernels.mapped_file import MappedFile
from dperm.data.mapped import GuardedRows, mapped_array
from dperm.data.passes import ClippedGradientSum
from dperm.errors import DataError
from dperm.objective.gradients import clipped_gradient_sum

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not let a mapped file change")

N, D = 3000, 40
W = np.linspace(-0.1, 0.1, D)


def data(dtype=np.float32):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D)).astype(dtype)
    return x, np.where(x[:, 0] > 0.0, 1.0, -1.0)


def mapped(path, x, mode="r", header=0):
    with open(path, "wb") as file:
        file.write(b"\0" * header + x.tobytes())
    return np.memmap(path, x.dtype, mode, header, x.shape)


def integers(objective):
    return clipped_gradient_sum(objective, W, 0.3)._integers


def is_guarded(objective):
    return type(objective._rows) is GuardedRows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("header", [0, 128, 4096 + 8])
@pytest.mark.parametrize("rows", [slice(None), slice(701, 2900)])
def test_the_integers_of_memory(tmp_path, dtype, mode, header, rows):
    x, y = data(dtype)
    files = Objective("logistic", mapped(tmp_path / "x", x, mode, header)[rows], y[rows])
    assert is_guarded(files)
    assert not files._rows._rows.x.flags.owndata
    assert np.array_equal(integers(files), integers(Objective("logistic", x[rows], y[rows])))


def test_arrays_that_are_no_longer_the_file_are_read_as_they_are(tmp_path):
    x, y = data()
    private = mapped(tmp_path / "x", x, "c")
    private[5] = 3.0
    changed = x.copy()
    changed[5] = 3.0
    objective = Objective("logistic", private, y)
    assert not is_guarded(objective)
    assert np.array_equal(integers(objective), integers(Objective("logistic", changed, y)))

    orphan = mapped(tmp_path / "x", x)
    np.zeros_like(x).tofile(tmp_path / "other")
    os.replace(tmp_path / "other", tmp_path / "x")
    objective = Objective("logistic", orphan, y)
    assert not is_guarded(objective)
    assert np.array_equal(integers(objective), integers(Objective("logistic", x, y)))
    copied = mapped(tmp_path / "y", x)[:, ::2]  # not contiguous
    with pytest.warns(dperm.errors.CopyWarning):
        assert not is_guarded(Objective("logistic", copied, y))


def test_targets_are_copied_from_their_map(tmp_path):
    x, y = data()
    targets = mapped(tmp_path / "y", y)
    objective = Objective("logistic", mapped(tmp_path / "x", x), targets)
    os.truncate(tmp_path / "y", 0)
    assert np.array_equal(integers(objective), integers(Objective("logistic", x, y)))
    with pytest.raises(DataError, match="shorter than the array"):
        Objective("logistic", x, targets)


def test_estimators(tmp_path):
    x, y = data()
    memory = dperm.LogisticRegression(classes=[-1, 1], random_state=1).fit(x, y)
    files = dperm.LogisticRegression(classes=[-1, 1], random_state=1).fit(mapped(tmp_path / "x", x), y)
    assert np.array_equal(memory.coef_, files.coef_)


# -- files that change -------------------------------------------------------------------------------


def test_a_file_that_shrinks_under_the_kernels(tmp_path):
    """The kernels read pages that no longer exist, in two threads, and the pass raises."""
    x, y = data()
    objective = Objective("logistic", mapped(tmp_path / "x", x), y, n_threads=2)
    os.truncate(tmp_path / "x", 4 * 4096)
    inside = objective._rows._rows  # skips the check before the pass
    with pytest.raises(DataError), objective._rows._files.unchanged():
        pytest.fail("the check before the block must see it")
    assert not objective._rows._files.bytes_of(tmp_path / "x").lost
    inside.run(ClippedGradientSum((0, 0.0, 0.0), W, 0.3, 2.0**-20), 2)
    assert np.all(inside.x[-1] == 0.0)
    assert objective._rows._files.bytes_of(tmp_path / "x").lost


def test_a_file_that_shrinks_and_grows_again_within_a_pass(tmp_path):
    x, y = data()
    objective = Objective("logistic", mapped(tmp_path / "x", x), y)

    def pass_over():
        with objective._rows._files.unchanged():
            os.truncate(tmp_path / "x", 0)
            assert objective._rows._rows.x.sum() == 0.0
            x.tofile(tmp_path / "x")

    with pytest.raises(DataError, match=r"has changed|could not be read"):
        pass_over()


def test_what_was_lost_stays_lost(tmp_path):
    """Even if the size and times of the file are unchanged."""
    x, y = data()
    objective = Objective("logistic", mapped(tmp_path / "x", x), y)
    files = objective._rows._files
    os.truncate(tmp_path / "x", 0)
    objective._rows._rows.x.sum()
    x.tofile(tmp_path / "x")
    files._files = type(files._files)([tmp_path / "x"])  # as if the change had gone unnoticed
    with pytest.raises(DataError, match="could not be read to its end"):
        integers(objective)


# -- mappings ----------------------------------------------------------------------------------------


def test_mappings_are_returned(tmp_path):
    (tmp_path / "x").write_bytes(b"abc" * 5000)
    with open(tmp_path / "x", "rb") as file:
        for _ in range(3000):
            assert bytes(memoryview(MappedFile(file.fileno(), 1, 4)))[:4] == b"bcab"
        held = []
        with pytest.raises(OSError, match="temporarily"):
            held.extend(MappedFile(file.fileno(), 5000, 10) for _ in range(2000))
    x, y = data()
    array = mapped(tmp_path / "z", x)
    assert mapped_array(array) is None  # too many mappings: read as it is
    held.clear()
    assert is_guarded(Objective("logistic", array, y))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how other systems end a process differs")
@pytest.mark.parametrize("faulthandler", ["", "-Xfaulthandler"])
def test_other_bus_errors_are_as_before(tmp_path, faulthandler):
    """Truncation under a foreign mapping still kills the process, through the handler that was installed."""
    program = f"""
        import os, resource
        import numpy as np
        from dperm._kernels.mapped_file import MappedFile
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        np.zeros(100000).tofile({str(tmp_path / "x")!r})
        ours = MappedFile(os.open({str(tmp_path / "x")!r}, os.O_RDONLY), 0, 800000)
        theirs = np.memmap({str(tmp_path / "x")!r}, float)
        os.truncate({str(tmp_path / "x")!r}, 0)
        print(np.frombuffer(memoryview(ours)).sum(), ours.lost, flush=True)
        theirs.sum()
    """
    arguments = [sys.executable, *filter(None, [faulthandler]), "-c", textwrap.dedent(program)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.stdout == "0.0 True\n"
    assert run.returncode == -signal.SIGBUS
    assert ("Fatal Python error: Bus error" in run.stderr) is bool(faulthandler)
