"""Arguments out of range, and values that no noise can protect, are refused with a clear message."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from dperm import Bounded, Objective
from dperm.losses import Huber
from dperm.objective import arguments
from dperm.private_values.linear_map import LinearMap
from reference.exact import same

X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.tile([1.0, -1.0], 10)
ZERO, IDENTITY = np.zeros(3), LinearMap.rounding(np.eye(3))


def made(loss="logistic", **keywords):
    return Objective(loss, X, Y, **keywords)


NO_NUMBERS = ["1", None, True, 1j, [1.0], np.ones(2)]
BEYOND = [math.nan, math.inf, -1.0, 10**400]

#: For each argument, by name (spaces tell calls apart): a call, and the range that the message states.
NUMBERS = {
    "l2": (lambda value: made(l2=value), "finite and at least 0"),
    "row_norm": (lambda value: made(row_norm=value), "positive, between"),
    "clip": (lambda value: made().clipped_gradient_sum(ZERO, value), "between 2"),
    "clip ": (lambda value: made().clipped_loss_sums(ZERO, ZERO, [0.0], value), "between 2"),
    " clip": (lambda value: made().mapped_gradient_sum(ZERO, value, IDENTITY), "between 2"),
    "stride": (lambda value: made().coordinate_loss_sums(ZERO, value), "between 2"),
}


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_values_that_are_not_numbers(name, value):
    with pytest.raises(TypeError, match=f"{name.strip()} must be a number, got "):
        NUMBERS[name][0](value)


@pytest.mark.parametrize("value", BEYOND, ids=["nan", "inf", "negative", "huge integer"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range(name, value):
    call, expected = NUMBERS[name]
    message = f"{name.strip()} must be ({expected}|a number that a double)"
    with pytest.raises(ValueError, match=message) as error:
        call(value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: made(row_norm=1e-300), ValueError, "row_norm must be .* got 1e-300"),
        (lambda: made(row_norm=1.7e308), ValueError, r"row_norm must be .*scale the columns.* got 1.7e\+308"),
        (lambda: made(fit_intercept=None), TypeError, "fit_intercept must be True or False, got None"),
        (lambda: made(fit_intercept="no"), TypeError, "fit_intercept must be True or False, got 'no'"),
        (lambda: made(penalize_intercept=1), TypeError, "penalize_intercept must be True or False, got 1"),
        (lambda: made(n_public=True), ValueError, "n_public must be a positive integer, got True"),
        (lambda: made(n_public=2**51), ValueError, "n_public = 2251799813685248 is too large"),
        (lambda: made(n_public="20"), ValueError, "n_public must be a positive integer, got '20'"),
        (lambda: made(non_finite=None), ValueError, "non_finite must be one of .* got None"),
        (lambda: made(3), ValueError, "loss must be .* got 3"),
        (lambda: made(counts=[2**47] * 20), ValueError, "counts must stand for .* at most 2"),
        (lambda: made(counts=["1"] * 20), ValueError, "counts must hold whole numbers"),
        (lambda: made().clipped_gradient_sum(ZERO, 1.0, radius=math.nan), ValueError, "radius must .* nan"),
        (lambda: made().clipped_gradient_sum(ZERO, 1.0, radius=-1.0), ValueError, "radius must be .* -1.0"),
        (lambda: made().clipped_gradient_sum(ZERO, 1.0, radius="1"), TypeError, "radius must be a number"),
        (lambda: made().gram_sum(target_factor="1"), TypeError, "target_factor must be a number"),
        (lambda: made().gram_sum(target_factor=math.nan), ValueError, "target_factor .* got nan"),
        (lambda: made().gram_sum(target_factor=-1.0), ValueError, "target_factor .* got -1.0"),
        (lambda: made().clipped_gradient_sum("abc", 1.0), TypeError, "w must hold real numbers, got .* <U3"),
        (lambda: made().gradient([1j, 0, 0]), TypeError, "w must hold real .* complex"),
        (lambda: made().value([None, 0, 0]), ValueError, "w must be finite"),
        (lambda: made().clipped_loss_sums(ZERO, "a", [0.0], 1.0), TypeError, "direction must hold real"),
        (lambda: made().clipped_loss_sums(ZERO, ZERO, ["a"], 1.0), TypeError, "steps must hold real numbers"),
        (lambda: made().mapped_gradient_sum(ZERO, 1.0, np.eye(3)), TypeError, "Map, got ndarray"),
        (lambda: made().moment_sums(None), TypeError, "clip must be a number, got None"),
        (lambda: made().moment_sums(0.0), ValueError, "clip must be between .* got 0.0"),
        (lambda: made().hessian_sum(ZERO, "1"), TypeError, "clip must be a number, got '1'"),
        (lambda: made().hessian_sum(ZERO, math.nan), ValueError, "clip must be between .* got nan"),
        (lambda: made().hessian_sum(ZERO, upper=None), TypeError, "upper must be True or False, got None"),
        (lambda: made(row_norm=2.0**600).gram_sum(), ValueError, "need rows of norm at most"),
        (lambda: made(Huber()).regression_sums(1.0), ValueError, "finite target_bound"),
        (lambda: made(Huber()).gram_sum(target_factor=1.0), ValueError, "finite target_bound"),
        (lambda: made().check_sums(loss_clip=0.0), ValueError, "loss_clip must be between .* got 0.0"),
    ],
)  # fmt: skip
def test_messages_name_the_argument_and_its_value(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("clip", [Fraction(1, 4), np.float32(0.25), np.float64(0.25)])
def test_other_real_number_types_are_converted_to_float(clip):
    given = made(l2=clip, row_norm=clip).clipped_gradient_sum(ZERO, clip, radius=4 * clip)
    expected = made(l2=0.25, row_norm=0.25).clipped_gradient_sum(ZERO, 0.25, radius=1.0)
    assert type(given.add_or_remove) is float
    assert given.add_or_remove == expected.add_or_remove
    assert given._integers.tolist() == expected._integers.tolist()


# -- check_sums ----------------------------------------------------------------------------------------

many = {"n_public": 2**46}
REFUSED_SUMS = {
    "clip": ({}, {"clip": 1e300}, lambda o: o.clipped_gradient_sum(ZERO, 1e300)),
    "radius": ({}, {"clip": 1.0, "radius": -1.0}, lambda o: o.clipped_gradient_sum(ZERO, 1.0, radius=-1.0)),
    "losses": ({}, {"loss_clip": 1e-300}, lambda o: o.clipped_loss_sums(ZERO, ZERO, [1.0], 1e-300)),
    "gram": (many, {"gram": True}, lambda o: o.gram_sum()),
    "targets": ({}, {"gram": True, "target_factor": -1.0}, lambda o: o.gram_sum(target_factor=-1.0)),
    "hessian": (many, {"hessian_clip": math.inf}, lambda o: o.hessian_sum(ZERO)),
    "no hessian": ({"loss": "hinge"}, {"hessian_clip": 1.0}, lambda o: o.hessian_sum(ZERO, 1.0)),
    "moments": (many, {"moment_clip": 1.0}, lambda o: o.moment_sums(1.0)),
    "small moments": ({}, {"moment_clip": 2.0**-60}, lambda o: o.moment_sums(2.0**-60)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_SUMS)
def test_check_sums_refuses_what_the_sums_would_refuse(case):
    settings, checked, make = REFUSED_SUMS[case]
    problem = made(**settings)
    with pytest.raises((ValueError, TypeError)) as late:
        make(problem)
    with pytest.raises(type(late.value)) as early:
        problem.check_sums(**checked)
    assert str(early.value).removeprefix("loss_") == str(late.value)


def test_check_sums_accepts_sums_that_can_be_formed():
    made().check_sums()
    made().check_sums(
        0.5, 2.0, loss_clip=1.0, gram=True, target_factor=2.0, hessian_clip=math.inf, moment_clip=0.1
    )
    made(Huber()).check_sums(0.5, gram=True)


def test_matrices_that_do_not_fit_in_memory_are_refused(monkeypatch):
    """100,000 columns: the triangle alone takes 40 GB."""
    monkeypatch.setattr(arguments, "machine_memory", lambda: 64e9)
    wide = Objective("logistic", np.ones((1, 100_000), np.float32), [1.0])
    message = r"second moments of 100000 columns takes about .* has 64 GB: use fewer"
    calls = lambda: wide.check_sums(gram=True), wide.gram_sum, lambda: wide.hessian_sum(np.zeros(100_000))
    for make in calls:
        with pytest.raises(ValueError, match=message):
            make()
    wide.check_sums(0.5)
    monkeypatch.setattr(arguments, "machine_memory", lambda: 1e6)
    with pytest.raises(ValueError, match="a gradient of 100000 weights takes about"):
        wide.check_sums(0.5)


def test_machine_memory_is_known():
    assert arguments.machine_memory() > 1e8


# -- private values without a bound ----------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["add_or_remove", "replace_one", "grid"])
def test_private_values_need_finite_positive_bounds(name, bad):
    bounds = {"add_or_remove": 1.0, "replace_one": 2.0, "grid": 0.5} | {name: bad}
    message = f"{name} of a private value must be positive and finite, got {bad!r}"
    with pytest.raises(ValueError, match=message):
        Bounded(np.zeros(2, dtype=np.int64), **bounds)


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_results_without_a_bound_are_refused(bad):
    with pytest.raises(ValueError, match="replace_one of a private value"):
        Bounded.rounding(np.ones(2), add_or_remove=1.0, replace_one=bad)


def test_second_moments_of_rows_do_not_depend_on_the_target_bound():
    assert same(made(Huber()).gram_sum(), made("logistic").gram_sum())


@pytest.mark.parametrize("X", [X, scipy.sparse.csr_array(X)], ids=["dense", "sparse"])
def test_mapped_sums_are_not_shared_between_losses(X):
    linear_map, w = LinearMap.rounding(np.diag([1.0, 2.0, 4.0])), np.ones(3)
    one = Objective("logistic", X, Y)
    before = one.mapped_gradient_sum(w, 0.3, linear_map)
    other = one.with_loss("hinge").mapped_gradient_sum(w, 0.3, linear_map)
    expected = Objective("hinge", X, Y).mapped_gradient_sum(w, 0.3, linear_map)
    assert other._integers.tolist() == expected._integers.tolist() != before._integers.tolist()
    assert one.mapped_gradient_sum(w, 0.3, linear_map)._integers.tolist() == before._integers.tolist()
