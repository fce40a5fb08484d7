"""SGD with output perturbation: numpy reference, calibration, sensitivity attained, guarantee."""

import math

import numpy as np
import pytest

from algorithms.problems import objective, secret_bits, separable, zero_rows
from dperm import Objective, algorithms, losses
from dperm.algorithms import nonprivate
from dperm.errors import PrivacyWarning
from dperm.mechanisms.sampling import permutation, uniform_integers
from dperm.objective.descents import DescentPlan, sgd_weights
from reference.exact import opened
from reference.sgd_twin import sgd

EXACT = {"epsilon": math.inf, "delta": 1e-6}


def dp_sgd_output(objective, *budget, neighbors="replace_one", **settings):
    """The algorithm under the neighbouring relation of its paper."""
    return algorithms.dp_sgd_output(objective, *budget, neighbors=neighbors, **settings)


def order_of(seed, n):
    """The order in which a seeded run visits the records."""
    return np.asarray(permutation(secret_bits(seed), n), dtype=np.int64)


# -- calibration against published tables ------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "eta", "n", "passes", "average", "settings", "sensitivity", "sigma"),
    [
        (losses.Absolute(), 0.01, 1000, 1, False, {"smooth_kink": False}, 0.6324555320, None),
        (losses.Absolute(), 0.01, 1000, 1, True, {"smooth_kink": False}, 0.4213166622, 1.779927609),
        (losses.Absolute(), 0.01, 200, 4, True, {"smooth_kink": False}, 0.4040651035, 1.707045313),
        (losses.Logistic(), 0.05, 100, 5, False, {}, 0.5, None),
        (losses.Logistic(), 0.05, 100, 5, True, {}, 0.299, 1.263178988),
        (losses.Hinge(), 0.01, 1000, 1, False, {}, 0.02, None),
        (losses.Hinge(), 0.01, 1000, 1, True, {}, 0.01998, 0.08440908421),
        # mini-batches: (a/b) ((m+1)/2 - b/n)
        (losses.Logistic(), 0.5, 100, 5, True, {"batch_size": 10}, 0.1 * (3 - 0.1), None),
    ],
)
def test_noise_of_the_published_examples(loss, eta, n, passes, average, settings, sensitivity, sigma):
    privacy, null = (
        dp_sgd_output(
            zero_rows(n, loss), 1.0, 1e-6, step_size=eta, passes=passes, clip=math.inf, mechanism="gaussian",
            output="average" if average else "last", neighbors=neighbors, **settings,
        ).privacy
        for neighbors in ("replace_one", "add_or_remove")
    )  # fmt: skip
    # a thousandth is reserved for rounding to the grid
    assert sensitivity <= privacy.sensitivity <= sensitivity * 1.0011
    if sigma is not None:
        assert sigma <= privacy.noise_scale <= sigma * 1.0011
    assert privacy.steps == n * passes // settings.get("batch_size", 1)
    assert null.sensitivity < privacy.sensitivity
    if settings.get("smooth_kink", True):
        assert null.sensitivity == pytest.approx(privacy.sensitivity / 2, rel=1e-3)


def test_projection_limits_the_sensitivity_to_the_diameter():
    result = dp_sgd_output(
        zero_rows(100, losses.SoftMargin(1.5)), 1.0, 1e-6, step_size=0.5, passes=3, radius=1.0, output="last"
    )
    assert 2.0 <= result.privacy.sensitivity <= 2.0 * 1.0011


@pytest.mark.parametrize(
    ("loss", "settings", "sigma"),
    [
        (losses.Absolute(1.0), {"step_size": 0.01, "passes": 1}, 35.75449250),
        (losses.Logistic(), {"step_size": 0.05, "passes": 10}, 50.17050680),
    ],
)
def test_paper_mode_is_theorem_8(loss, settings, sigma):
    with pytest.warns(match="outside the range"):
        result = dp_sgd_output(zero_rows(1000, loss), 1.0, 1e-6, radius=1.0, calibration="paper", **settings)
    assert sigma <= result.privacy.noise_scale <= sigma * 1.03
    assert result.privacy.public["sampling"] == "uniform"


def test_averaged_counts():
    result = dp_sgd_output(
        zero_rows(1000, losses.Absolute()), 1.0, 1e-6, sampling="uniform", counts="averaged", passes=1,
        step_size=0.01, smooth_kink=False, output="last", clip=math.inf,
    )  # fmt: skip
    assert 2.675646554 <= result.privacy.noise_scale <= 2.675646554 * 1.02


def test_realised_counts_follow_the_indices_drawn():
    n, eta = 50, 0.01
    for seed in range(5):
        result = dp_sgd_output(
            zero_rows(n), 1.0, 1e-6, sampling="uniform", passes=2, step_size=eta, output="last",
            random_state=seed, clip=math.inf,
        )  # fmt: skip
        drawn = uniform_integers(secret_bits(seed), n, 2 * n)
        most = np.bincount(drawn).max()
        assert result.privacy.sensitivity == pytest.approx(2 * eta * most, rel=1.1e-3)


# -- the run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["average", "last"])
@pytest.mark.parametrize(("batch_size", "radius"), [(1, math.inf), (7, 0.5)])
def test_without_noise_it_equals_the_numpy_reference(batch_size, radius, output):
    X, y = separable(n=100)
    obj = Objective("logistic", X, y, row_norm=1.5, fit_intercept=True, l2=0.1)
    result = dp_sgd_output(
        obj, **EXACT, passes=3, batch_size=batch_size, step_size=0.3, radius=radius, clip=0.4, output=output,
        random_state=5,
    )  # fmt: skip
    order = order_of(5, 100)[: 100 // batch_size * batch_size]
    batches = list(np.tile(order, 3).reshape(-1, batch_size))
    iterates = sgd(
        X, y, losses.Logistic(), batches, np.full(len(batches), 0.3), row_norm=1.5, fit_intercept=True,
        clip=0.4, divisor=batch_size, l2=0.1, n_penalized=5, radius=radius,
    )  # fmt: skip
    expected = iterates[-1] if output == "last" else iterates[:-1].mean(axis=0)
    np.testing.assert_allclose(result.coef, expected, atol=result.privacy.sensitivity / 1000)
    assert not result.privacy.private


def test_decreasing_steps_equal_the_reference_and_reach_the_optimum():
    X, y = separable(n=300)
    obj = Objective("logistic", X, y, row_norm=1.5, l2=0.1)
    settings = {"step_sizes": "decreasing", "batch_size": 5, "clip": math.inf, "random_state": 2}
    result = dp_sgd_output(obj, **EXACT, passes=2, **settings)
    batches = np.tile(order_of(2, 300), 2).reshape(-1, 5)
    etas = np.minimum(1 / (0.1 + 1.5**2 / 4), 1 / (0.1 * np.arange(1, 121)))
    expected = sgd(X, y, losses.Logistic(), batches, etas, row_norm=1.5, divisor=5, l2=0.1)[-1]
    np.testing.assert_allclose(result.coef, expected, atol=result.privacy.sensitivity / 1000)
    long = dp_sgd_output(obj, **EXACT, passes=300, **settings)
    np.testing.assert_allclose(long.coef, nonprivate(obj).coef, atol=0.01)


@pytest.mark.parametrize("loss", ["logistic", "huberized_hinge", "soft_margin"])
def test_without_noise_it_comes_close_to_the_optimum(loss):
    X, y = separable()
    obj = Objective(loss, X, y, row_norm=1.0)
    value = obj.value(dp_sgd_output(obj, **EXACT, passes=50, step_size=0.05, random_state=0).coef)
    assert value <= obj.value(nonprivate(obj).coef) + 0.01


def test_smoothing_the_kink_lowers_the_noise_and_keeps_the_result():
    X, y = separable()
    obj = Objective("hinge", X, y, row_norm=1.0)
    smooth, rough = (
        dp_sgd_output(obj, 1.0, 1e-6, radius=10.0, passes=1, step_size=0.05, smooth_kink=kink)
        for kink in (True, False)
    )
    assert smooth.privacy.noise_scale < rough.privacy.noise_scale / 10
    exact = [
        obj.value(
            dp_sgd_output(obj, **EXACT, passes=5, step_size=0.05, smooth_kink=kink, random_state=1).coef
        )
        for kink in (True, False)
    ]
    assert abs(exact[0] - exact[1]) < 0.02


# -- one record --------------------------------------------------------------------------------------


def distance(plan, order, one, other):
    """Distance between the final weights of two runs, on a fine grid."""
    ends = [
        opened(sgd_weights(obj, plan, order, add_or_remove=1e-9, replace_one=1e-9)) for obj in (one, other)
    ]
    return np.linalg.norm(ends[0] - ends[1])


def steepest_pair(q, n, eta, bound):
    """Two runs on ``|y - u|^q`` whose distance grows as fast as the recursion allows, in n dimensions.

    Record 0 differs: targets +-bound along axis 0. Record t has a component along the current difference of
    the two runs, with the residual gap that a step expands most and its target half-way; the rest of its row
    lies along an axis of its own.
    """
    loss, p = losses.Power(q, bound) if q > 1 else losses.Absolute(bound), q - 1.0
    gap = 1e-6
    if p > 0:
        slope = loss.holder_slope
        s = (eta * p / (1 + p) * slope ** (1 / p)) ** (p / (1 - p))
        gap = (s / slope) ** (1 / p)
    X, targets = np.zeros((n, n)), np.zeros((2, n))
    X[0, 0], targets[:, 0] = 1.0, (bound, -bound)
    w = np.zeros((2, n))
    for t in range(n):
        if t > 0:
            difference = w[0] - w[1]
            c = gap / np.linalg.norm(difference)
            X[t] = c * difference / np.linalg.norm(difference)
            X[t, t] += math.sqrt(1 - c * c)
            targets[:, t] = (w[0] @ X[t] + w[1] @ X[t]) / 2
        w = np.array([w[k] - eta * loss.derivative(w[k] @ X[t], targets[k, t]) * X[t] for k in range(2)])
    return loss, X, targets


@pytest.mark.parametrize("q", [1.0, 1.25, 1.5, 1.8])
def test_the_sensitivity_of_a_pass_is_attained(q):
    n, eta, seed, bound = 24, 0.05, 3, 1.0
    loss, X, targets = steepest_pair(q, n, eta, bound)
    order = order_of(seed, n)
    rows, ys = np.empty_like(X), np.empty_like(targets)
    rows[order], ys[:, order] = X, targets
    one, other = (Objective(loss, rows, y, row_norm=1.0 + 1e-12) for y in ys)
    # The changed record comes first, at w = 0: its gradient is bounded by the constant of the ball {0}.
    clip = loss.lipschitz(1.0, 0.0)
    result = dp_sgd_output(
        one, **EXACT, passes=1, step_size=eta, output="last", smooth_kink=False, clip=clip, random_state=seed
    )
    plan = DescentPlan(loss, n, 1, eta, clip, average=False)
    moved = distance(plan, order, one, other)
    assert 0.9985 * result.privacy.sensitivity <= moved <= result.privacy.sensitivity


def test_the_sensitivity_for_smooth_losses_is_attained():
    """A record far from its target pushes in the same direction in every pass."""
    n, passes, seed = 20, 4, 7
    order = order_of(seed, n)
    for batch_size in (1, 4):
        X = np.zeros((n, 2))
        X[order[0], 0] = 1.0
        y = np.zeros((2, n))
        y[:, order[0]] = (1e6, -1e6)
        one, other = (Objective(losses.Huber(1.0), X, targets) for targets in y)
        for output in ("average", "last"):
            settings = {"passes": passes, "batch_size": batch_size, "step_size": 0.5, "output": output}
            result = dp_sgd_output(one, **EXACT, random_state=seed, clip=math.inf, **settings)
            steps, stated = passes * n // batch_size, result.privacy.sensitivity
            plan = DescentPlan(one.loss, steps, batch_size, 0.5, math.inf, average=output == "average")
            assert 0.9985 * stated <= distance(plan, order, one, other) <= stated


@pytest.mark.parametrize("batch_size", [1, 10, 20])
def test_the_decreasing_schedule_attains_its_bound_for_every_batch_size(batch_size):
    """2 L/(l2 n), with no further division by the batch size."""
    n, l2, seed = 200, 1.0, 1
    order = order_of(seed, n)
    X = np.zeros((n, 1))
    X[order[-1]] = 0.01
    y = np.zeros((2, n))
    y[:, order[-1]] = (1e6, -1e6)
    one, other = (Objective(losses.Huber(1.0), X, targets, l2=l2, row_norm=0.01) for targets in y)
    ends = []
    for obj in (one, other):
        result = dp_sgd_output(
            obj, **EXACT, passes=10, batch_size=batch_size, step_sizes="decreasing", random_state=seed,
            clip=math.inf,
        )  # fmt: skip
        ends.append(result.coef)
    bound = 2 * 0.01 / (l2 * n)
    assert bound <= result.privacy.sensitivity <= bound * 1.0011
    assert np.linalg.norm(ends[0] - ends[1]) >= 0.998 * bound


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute", "soft_margin", "squared_hinge"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove"])
def test_no_neighbour_found_exceeds_the_sensitivity(loss, relation):
    """Random and adversarial replacements, with l2, mini-batches and an active projection."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for trial in range(60):
        n, d = int(rng.integers(4, 12)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 5.0])
        y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        other_X, other_y = X.copy(), y.copy()
        place = int(order_of(trial, n)[0]) if trial % 2 else int(rng.integers(n))
        other_X[place] = -X[place] if trial % 3 else 10 * rng.normal(size=d)
        other_y[place] = -y[place] if trial % 5 else y[place]
        if relation == "add_or_remove":
            other_X[place], other_y[place] = np.nan, 1.0  # with non_finite="zero" it contributes nothing
        smooth = loss in ("logistic", "squared_hinge")
        settings = {
            "passes": int(rng.integers(1, 4)),
            "batch_size": int(rng.choice([1, 2])),
            "step_size": float(rng.choice([0.01, 0.3, 0.9])),
            "radius": float(rng.choice([0.3, 2.0])),
            "clip": float(rng.choice([0.2, math.inf])),
            "output": str(rng.choice(["average", "last"])),
            "smooth_kink": bool(rng.random() < 0.5),
        }
        l2 = float(rng.choice([0.0, 0.1 if smooth else 0.0]))
        pair = [
            Objective(loss, data, targets, l2=l2, row_norm=1.0, non_finite="zero")
            for data, targets in ((X, y), (other_X, other_y))
        ]
        results = [
            dp_sgd_output(obj, **EXACT, neighbors=relation, random_state=trial, **settings) for obj in pair
        ]
        moved = np.linalg.norm(results[0].coef - results[1].coef)
        stated = results[0].privacy.sensitivity
        assert moved <= stated
        worst = max(worst, moved / stated)
    assert worst > 0.3


# -- the guarantee -----------------------------------------------------------------------------------


def test_pure_guarantee_and_choice_of_noise():
    obj = objective(n=500)
    pure = dp_sgd_output(obj, 1.0, 0.0)
    assert pure.privacy.delta == 0.0
    assert pure.privacy.accountant == "pure"
    assert pure.privacy.noise_scale == pytest.approx(pure.privacy.sensitivity)
    assert dp_sgd_output(obj, 1.0, 1e-6).privacy.mechanism.startswith("norm-laplace")
    assert dp_sgd_output(obj, 1.0, 1e-6, mechanism="gaussian").privacy.mechanism.startswith("gaussian")
    wide = Objective("logistic", np.zeros((50, 40)), np.ones(50))
    assert dp_sgd_output(wide, 1.0, 1e-6).privacy.mechanism.startswith("gaussian")


@pytest.mark.parametrize("mechanism", ["gaussian", "norm_laplace"])
def test_one_release_spends_the_budget(releases, mechanism):
    dp_sgd_output(objective(), 0.7, 1e-7, mechanism=mechanism)
    ((method, budget),) = releases
    assert method == f"{mechanism}_sum"
    assert budget.total_units - 2 <= budget.spent_units <= budget.total_units


def test_unbounded_gradients_are_refused_with_advice():
    X, y = separable(n=100)
    with pytest.raises(ValueError, match="pass clip, or a radius"):
        dp_sgd_output(Objective("squared_hinge", X, y), 1.0, 1e-6, clip=math.inf)
    with pytest.raises(ValueError, match="step_sizes='decreasing' needs a strongly convex"):
        dp_sgd_output(Objective("logistic", X, y), 1.0, 1e-6, step_sizes="decreasing")


# -- gradients that only the loss bounds -------------------------------------------------------------


def test_the_published_noise_without_a_radius():
    objective = zero_rows(1000, losses.SoftMargin(1.5))
    with pytest.warns(PrivacyWarning, match="outside the range"):  # epsilon < 1 in the paper
        result = dp_sgd_output(objective, 1.0, 1e-6, calibration="paper", passes=1, step_size=0.02)
    assert result.privacy.noise_scale == pytest.approx(138.7607186, rel=1e-2)  # rounding, by the order drawn
    assert result.privacy.noise_scale >= 138.7607186
    assert result.privacy.public["iterate_bound"] == pytest.approx(
        6.321397585 * math.sqrt(1000 / 999), rel=1e-6
    )


Q_LOSSES = [
    losses.SoftMargin(1.5),
    losses.SoftMargin(1.2),
    losses.SoftMargin(2.0),
    losses.Power(1.5, target_bound=2.0),
    losses.Power(1.9, target_bound=2.0),
    losses.Power(2.0, target_bound=2.0),
]


@pytest.mark.parametrize("loss", Q_LOSSES, ids=repr)
@pytest.mark.parametrize("output", ["average", "last"])
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_without_clip_and_radius_no_record_exceeds_the_sensitivity(loss, output, l2):
    """The changed record pulls in the opposite direction, the others drive the iterates outwards."""
    rng, n, eta, passes, seed = np.random.default_rng(1), 30, 0.05, 4, 5
    order = order_of(seed, n)
    settings = {"passes": passes, "step_size": eta, "clip": math.inf, "output": output, "random_state": seed}
    closest = 0.0
    for trial in range(12):
        X = np.zeros((n, 2))
        X[:, 0] = 1.0
        if trial % 2:
            X = rng.normal(size=(n, 2))
            X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        y = np.ones((2, n)) if loss.classification else np.full((2, n), loss.target_bound)
        place = order[trial % n]
        y[1, place] *= -1.0
        one, other = (Objective(loss, X, targets, row_norm=1.0, l2=l2) for targets in y)
        stated = dp_sgd_output(one, **EXACT, **settings).privacy
        plan = DescentPlan(loss, passes * n, 1, eta, math.inf, average=output == "average")
        moved = distance(plan, order, one, other)
        assert moved <= stated.sensitivity
        closest = max(closest, moved / stated.sensitivity)
    assert closest > 0.02


@pytest.mark.parametrize("loss", Q_LOSSES, ids=repr)
def test_the_bound_on_the_iterates_is_not_reached(loss):
    """It is enforced by a projection that must never be active, so that the algorithm is the paper's."""
    rng, n, seed = np.random.default_rng(2), 40, 3
    order = order_of(seed, n)
    for eta in (0.01, 0.1, 0.25):
        X = np.ones((n, 1)) * (1.0 if eta < 0.2 else rng.choice([-1.0, 1.0], (n, 1)))
        y = np.ones(n) if loss.classification else np.full(n, loss.target_bound)
        settings = {"passes": 3, "step_size": eta, "clip": math.inf, "output": "last", "random_state": seed}
        objective = Objective(loss, X, y)
        free = DescentPlan(loss, 3 * n, 1, eta, math.inf, average=False)
        weights = sgd_weights(objective, free, order, add_or_remove=1.0, replace_one=1.0)
        bound = dp_sgd_output(objective, **EXACT, **settings).privacy.public["iterate_bound"]
        assert np.linalg.norm(opened(weights)) < bound


def test_unbounded_runs_need_short_steps_and_ridge_on_every_weight():
    X, y = np.eye(4), np.array([1.0, -1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"step_size must be at most 1/\(l2 \+ beta\) = 0.5"):
        dp_sgd_output(Objective(losses.SoftMargin(2.0), X, y), 1.0, 1e-6, clip=math.inf, step_size=0.9)
    partly = Objective(losses.SoftMargin(1.5), X, y, l2=0.1, fit_intercept=True)
    with pytest.raises(ValueError, match="penalize_intercept=True"):
        dp_sgd_output(partly, 1.0, 1e-6, clip=math.inf)
    with pytest.raises(ValueError, match="a loss with a target_bound"):
        dp_sgd_output(Objective(losses.Power(1.5), X, y), 1.0, 1e-6, clip=math.inf)
    assert dp_sgd_output(Objective(losses.SoftMargin(2.0), X, y), 1.0, 1e-6, clip=math.inf).privacy.private
