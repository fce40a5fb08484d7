"""A Bounded value cannot be read except through the mechanisms."""

import copy
import io
import json
import math
import pickle
import pprint
import re
from pathlib import Path

import numpy as np
import pytest

from dperm import Bounded
from dperm.private_values.separate_sums import SeparateSums

SECRET = [271828, -314159, 161803]
REFUSAL = "private: release it through a mechanism"


@pytest.fixture
def vector():
    return Bounded(np.array(SECRET), grid=0.25, add_or_remove=3.0)


@pytest.fixture
def scores():
    return Bounded(np.array(SECRET), grid=0.25, add_or_remove=3.0, scores=True)


REFUSED = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "old pickle": lambda b: pickle.dumps(b, protocol=0),
    "state": lambda b: b.__getstate__(),
    "reduce": lambda b: b.__reduce__(),
    "list": list,
    "unpack": lambda b: [*b],
    "len": len,
    "index": lambda b: b[0],
    "slice": lambda b: b[:],
    "in": lambda b: 271828 in b,
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "round": round,
    "hash": hash,
    "equal": lambda b: b == b,
    "not equal": lambda b: b != 1,
    "less": lambda b: b < 3,
    "at least": lambda b: b >= 3,
    "sorted": lambda b: sorted([b, b]),
    "add": lambda b: b + 1,
    "subtract": lambda b: b - b,
    "multiply": lambda b: 2.0 * b,
    "negate": lambda b: -b,
    "abs": abs,
    "matmul": lambda b: np.ones(3) @ b,
    "numpy add": lambda b: np.add(np.ones(3), b),
    "numpy float array": lambda b: np.asarray(b, dtype=float),
    "numpy sum": lambda b: np.sum([b, b]),
    "numpy sqrt": np.sqrt,
    "memoryview": memoryview,
    "bytes": bytes,
    "json": json.dumps,
    "dict": vars,
    "format": lambda b: f"{b:.3f}",
    "percent": lambda b: "%d" % b,  # noqa: UP031
    "save": lambda b: np.save(io.BytesIO(), np.asarray(b)),
}


# A sequence of sums has a length, a truth value and elements, and adds to nothing.
OF_A_SEQUENCE = {"list", "unpack", "len", "index", "slice", "bool", "in", "numpy sum"}


@pytest.mark.parametrize("access", REFUSED)
def test_no_operation_reveals_the_sum(access, vector, scores):
    for bounded in (vector, scores):
        with pytest.raises((TypeError, AttributeError, ValueError)) as error:
            REFUSED[access](bounded)
        assert not shows_secret(str(error.value))


@pytest.mark.parametrize("access", sorted(set(REFUSED) - OF_A_SEQUENCE))
def test_no_operation_reveals_separate_sums(access):
    bounds = dict.fromkeys(("grids", "add_or_remove", "replace_one"), (0.25, 3.0, 1.0))
    sums = SeparateSums(np.array(SECRET)[:, None], **bounds)
    with pytest.raises((TypeError, AttributeError, ValueError)) as error:
        REFUSED[access](sums)
    assert not shows_secret(str(error.value))
    assert not shows_secret(repr(sums) + str(list(sums)))
    assert sums[1] is sums[1:][0]
    with pytest.raises(AttributeError, match="cannot be changed"):
        sums.grids = (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="as many grids and sensitivities"):
        SeparateSums(np.zeros((2, 3), dtype=np.int64), **bounds)


def shows_secret(text):
    return any(str(abs(number)) in text for number in [*SECRET, *[n * 0.25 for n in SECRET]])


@pytest.mark.parametrize("render", [repr, str, "{}".format, pprint.pformat, lambda b: repr([b]), ascii])
def test_no_entry_of_the_sum_is_printed(render, vector, scores):
    assert shows_secret(repr(SECRET))  # the test can fail
    for bounded in (vector, scores):
        assert not shows_secret(render(bounded))
        assert "not released" in render(bounded)


def test_the_message_says_what_to_do(vector):
    with pytest.raises(TypeError, match=REFUSAL):
        float(vector)


def test_numpy_sees_an_opaque_object(vector):
    assert not hasattr(vector, "__array__")
    assert not hasattr(vector, "__array_interface__")
    wrapped = np.asarray(vector)
    assert wrapped.dtype == object
    assert wrapped.shape == ()


@pytest.mark.parametrize("name", ["add_or_remove", "grid", "scores", "_integers", "sensitivity", "anything"])
def test_attributes_cannot_be_changed_added_or_deleted(name, vector):
    with pytest.raises(AttributeError, match="cannot be changed"):
        setattr(vector, name, 0)
    with pytest.raises(AttributeError, match="cannot be changed"):
        delattr(vector, name)
    assert vector.sensitivity("add_or_remove") == 3.0


def test_public_attributes(vector, scores):
    assert (vector.grid, vector.add_or_remove, vector.shape, vector.scores) == (0.25, 3.0, (3,), False)
    assert scores.scores
    public = {name for name in dir(vector) if not name.startswith("_")}
    assert public == {
        "grid",
        "mapped",
        "add_or_remove",
        "replace_one",
        "rounding",
        "shape",
        "scores",
        "sensitivity",
        "score_range",
        "stacked",
    }


@pytest.mark.parametrize(
    ("neighbors", "of_vector", "of_scores", "spread"),
    [("add_or_remove", 3.0, 3.0, 3.0), ("replace_one", 6.0, 3.0, 6.0)],
)
def test_sensitivities(vector, scores, neighbors, of_vector, of_scores, spread):
    assert vector.sensitivity(neighbors) == of_vector
    assert scores.sensitivity(neighbors) == of_scores
    assert scores.score_range(neighbors) == spread


def test_unknown_relation_and_range_of_a_vector(vector, scores):
    with pytest.raises(ValueError, match="swap"):
        vector.sensitivity("swap")
    with pytest.raises(ValueError, match="swap"):
        scores.score_range("swap")
    with pytest.raises(TypeError, match="scores"):
        vector.score_range("replace_one")


def test_only_the_release_opens_a_bounded_value():
    """Other modules do not read the integers, or only derive one private value from another."""
    package = Path(__file__).parents[1] / "src" / "dperm"
    allowed = {
        "private_values/bounded.py",
        "private_values/separate_sums.py",
        "objective/second_moment_sums.py",
        "objective/stochastic_descent.py",
        "mechanisms/release.py",
        "mechanisms/without_privacy.py",
    }
    readers = {
        path.relative_to(package).as_posix()
        for path in [*package.rglob("*.py"), *package.rglob("*.pyx")]
        if re.search(r"\b_integers\b", path.read_text())
    }
    assert "private_values/bounded.py" in readers  # the search finds the sources
    assert readers <= allowed


@pytest.mark.parametrize("size", [1, 3, 110])
def test_sensitivity_of_rounded_results_includes_the_rounding(size):
    values = np.random.default_rng(size).normal(size=size)
    rounded = Bounded.rounding(values, add_or_remove=1e-3, replace_one=1.5e-3)
    moved = rounded.grid * math.sqrt(size)
    assert rounded.sensitivity("add_or_remove") == 1e-3 + moved <= 1e-3 * (1 + 2.0**-10)
    assert rounded.sensitivity("replace_one") == 1.5e-3 + moved
    assert np.linalg.norm(rounded._integers * rounded.grid - values) <= moved / 2
    assert math.frexp(rounded.grid)[0] == 0.5  # a power of two


def test_results_beyond_the_range_of_the_grid_are_clipped():
    rounded = Bounded.rounding(np.array([1e30, -1e30, 1.0]), add_or_remove=1e-3, replace_one=1e-3)
    assert rounded._integers.tolist()[:2] == [2**61, -(2**61)]


def test_stacked_sums_are_bounded_together():
    """One record moves all parts at once: the bound on the stacked sum is attained."""
    parts = [
        Bounded(np.array([steps, 0], dtype=np.int64), grid=grid, add_or_remove=steps * grid)
        for steps, grid in ((3, 0.25), (4, 1.0))
    ]
    whole = Bounded.stacked(parts)
    moved = np.linalg.norm(whole._integers * whole.grid)
    assert moved == math.hypot(0.75, 4.0)
    assert moved <= whole.sensitivity("add_or_remove") <= moved * (1 + 2.0**-49)
    assert whole.sensitivity("replace_one") >= 2 * moved


def test_scores_cannot_be_stacked(scores):
    with pytest.raises(TypeError, match="scores"):
        Bounded.stacked([scores, scores])
