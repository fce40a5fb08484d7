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


@pytest.mark.parametrize("access", REFUSED)
def test_no_operation_reveals_the_sum(access, vector, scores):
    for bounded in (vector, scores):
        with pytest.raises((TypeError, AttributeError, ValueError)) as error:
            REFUSED[access](bounded)
        assert not shows_secret(str(error.value))


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
        "objective/descents.py",
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
