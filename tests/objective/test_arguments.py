"""Arguments out of range, and values that no noise can protect, are refused with a clear message."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from dperm import Bounded, Objective
from dperm.accounting import Ledger
from dperm.algorithms import noisy_gd
from dperm.losses import Huber
from dperm.objective import arguments
from dperm.objective.gradients import check_sums, clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.objective.moments import column_squares, gram_sum, regression_sums
from dperm.private_values.transform import Transform
from reference.exact import same

X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.tile([1.0, -1.0], 10)
ZERO, IDENTITY = np.zeros(3), Transform.rounding(np.eye(3))


def made(loss="logistic", **keywords):
    return Objective(loss, X, Y, **keywords)


def plain(objective):
    return Transform.scaling(np.ones(objective.dimension), objective.row_norm)


NO_NUMBERS = ["1", None, True, 1j, [1.0], np.ones(2)]
BEYOND = [math.nan, math.inf, -1.0, 10**400]

#: For each argument, by name (spaces tell calls apart): a call, and the range that the message states.
NUMBERS = {
    "l2": (lambda value: made(l2=value), "from 0 to 1e100"),
    "row_norm": (lambda value: made(row_norm=value), "positive, between"),
    "clip": (lambda value: clipped_gradient_sum(made(), ZERO, value), "between 2"),
    "clip ": (lambda value: clipped_loss_sums(made(), ZERO, ZERO, [0.0], value), "between 2"),
    " clip": (lambda value: mapped_gradient_sum(made(), ZERO, value, IDENTITY), "between 2"),
    "stride": (lambda value: coordinate_loss_sums(made(), ZERO, value), "between 2"),
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
        (lambda: clipped_gradient_sum(made(), ZERO, 1.0, radius=math.nan), ValueError, "radius must .* nan"),
        (lambda: clipped_gradient_sum(made(), ZERO, 1.0, radius=-1.0), ValueError, "radius must be .* -1.0"),
        (lambda: clipped_gradient_sum(made(), ZERO, 1.0, radius="1"), TypeError, "radius must be a number"),
        (lambda: gram_sum(made(), target_factor="1"), TypeError, "target_factor must be a number"),
        (lambda: gram_sum(made(), target_factor=math.nan), ValueError, "target_factor .* got nan"),
        (lambda: gram_sum(made(), target_factor=-1.0), ValueError, "target_factor .* got -1.0"),
        (lambda: clipped_gradient_sum(made(), "abc", 1.0), TypeError, "w must hold real numbers, got .* <U3"),
        (lambda: made().gradient([1j, 0, 0]), TypeError, "w must hold real .* complex"),
        (lambda: made().value([None, 0, 0]), ValueError, "w must be finite"),
        (lambda: clipped_loss_sums(made(), ZERO, "a", [0.0], 1.0), TypeError, "direction must hold real"),
        (lambda: clipped_loss_sums(made(), ZERO, ZERO, ["a"], 1.0), TypeError, "steps must hold real"),
        (lambda: mapped_gradient_sum(made(), ZERO, 1.0, np.eye(3)), TypeError, "Transform on a grid"),
        (lambda: column_squares(made(), plain(made()), None), TypeError, "clip must be a number, got None"),
        (lambda: column_squares(made(), plain(made()), 0.0), ValueError, "clip must be between .* got 0.0"),
        (lambda: gram_sum(made(row_norm=2.0**600)), ValueError, "need rows of norm at most"),
        (lambda: regression_sums(made(Huber()), 1.0), ValueError, "finite target_bound"),
        (lambda: gram_sum(made(Huber()), target_factor=1.0), ValueError, "finite target_bound"),
        (lambda: check_sums(made(), loss_clip=0.0), ValueError, "loss_clip must be between .* got 0.0"),
    ],
)  # fmt: skip
def test_messages_name_the_argument_and_its_value(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("clip", [Fraction(1, 4), np.float32(0.25), np.float64(0.25)])
def test_other_real_number_types_are_converted_to_float(clip):
    given = clipped_gradient_sum(made(l2=clip, row_norm=clip), ZERO, clip, radius=4 * clip)
    expected = clipped_gradient_sum(made(l2=0.25, row_norm=0.25), ZERO, 0.25, radius=1.0)
    assert type(given.add_or_remove) is float
    assert given.add_or_remove == expected.add_or_remove
    assert given._integers.tolist() == expected._integers.tolist()


# -- check_sums ----------------------------------------------------------------------------------------

many = {"n_public": 2**46}
REFUSED_SUMS = {
    "clip": ({}, {"clip": 1e300}, lambda o: clipped_gradient_sum(o, ZERO, 1e300)),
    "radius": ({}, {"clip": 1.0, "radius": -1.0}, lambda o: clipped_gradient_sum(o, ZERO, 1.0, radius=-1.0)),
    "losses": ({}, {"loss_clip": 1e-300}, lambda o: clipped_loss_sums(o, ZERO, ZERO, [1.0], 1e-300)),
    "gram": (many, {"gram": True}, lambda o: gram_sum(o)),
    "targets": ({}, {"gram": True, "target_factor": -1.0}, lambda o: gram_sum(o, target_factor=-1.0)),
    "squares": (many, {"columns": True}, lambda o: column_squares(o, plain(o), 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_SUMS)
def test_check_sums_refuses_what_the_sums_would_refuse(case):
    settings, checked, make = REFUSED_SUMS[case]
    problem = made(**settings)
    with pytest.raises((ValueError, TypeError)) as late:
        make(problem)
    with pytest.raises(type(late.value)) as early:
        check_sums(problem, **checked)
    assert str(early.value).removeprefix("loss_") == str(late.value)


def test_check_sums_accepts_sums_that_can_be_formed():
    check_sums(made())
    check_sums(made(), 0.5, 2.0, loss_clip=1.0, gram=True, target_factor=2.0, columns=True)
    check_sums(made(Huber()), 0.5, gram=True)


def test_matrices_that_do_not_fit_in_memory_are_refused(monkeypatch):
    """100,000 columns: the triangle alone takes 40 GB."""
    monkeypatch.setattr(arguments, "machine_memory", lambda: 64e9)
    wide = Objective("logistic", np.ones((1, 100_000), np.float32), [1.0])
    message = r"second moments of 100000 columns takes about .* has 64 GB: use fewer"
    calls = lambda: check_sums(wide, gram=True), lambda: gram_sum(wide)
    for make in calls:
        with pytest.raises(ValueError, match=message):
            make()
    check_sums(wide, 0.5)
    monkeypatch.setattr(arguments, "machine_memory", lambda: 1e6)
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match=r"noisy_gd takes about .* use fewer columns"):
        noisy_gd(wide, 1.0, 1e-6, ledger=ledger)
    assert not ledger.history()


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
    assert same(gram_sum(made(Huber())), gram_sum(made("logistic")))


@pytest.mark.parametrize("X", [X, scipy.sparse.csr_array(X)], ids=["dense", "sparse"])
def test_mapped_sums_are_not_shared_between_losses(X):
    linear_map, w = Transform.rounding(np.diag([1.0, 2.0, 4.0])), np.ones(3)
    one = Objective("logistic", X, Y)
    before = mapped_gradient_sum(one, w, 0.3, linear_map)
    other = mapped_gradient_sum(one.with_loss("hinge"), w, 0.3, linear_map)
    expected = mapped_gradient_sum(Objective("hinge", X, Y), w, 0.3, linear_map)
    assert other._integers.tolist() == expected._integers.tolist() != before._integers.tolist()
    assert mapped_gradient_sum(one, w, 0.3, linear_map)._integers.tolist() == before._integers.tolist()
