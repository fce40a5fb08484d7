"""Scales of the data that a fit learns privately before descent: budget shares, accuracy, invariance."""

import math

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.accounting.neighbours import Neighbours
from dperm.algorithms import (
    dp_agd,
    dp_lsadam,
    dp_lssgd,
    dp_sgd,
    dp_sgd_gradient,
    noisy_gd,
    nonprivate,
    preconditioned_gd,
    preconditioner,
    sufficient_statistics,
)
from dperm.algorithms.defaults.constants import Norms
from dperm.algorithms.defaults.scales import scale_shares
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, Power, SquaredError
from dperm.mechanisms import release_without_privacy
from dperm.mechanisms.hooks import watch_releases
from dperm.objective.counts import norm_counts
from dperm.private_values.transform import Transform
from reference.real_data import load_or_skip


def labelled(n=20_000, d=12, loose=1.0, shrunk=1.0, positives=0.5):
    """Rows of norm about 1, every third column shrunk, labels of a noisy rule."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    margin = 6.0 * (X @ rng.normal(size=d))
    margin += np.quantile(-margin, positives)
    y = np.where(margin + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    X[:, ::3] /= shrunk
    return Objective("logistic", X, y, row_norm=2.0 * loose, fit_intercept=True, n_threads=1)


IN_COORDINATES = {
    each.__name__: each for each in (preconditioned_gd, noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam)
}
LEARNERS = {**IN_COORDINATES, "dp_sgd_gradient": dp_sgd_gradient}  # which learns no scales of columns
learners = pytest.mark.parametrize("algorithm", LEARNERS.values(), ids=LEARNERS)
in_coordinates = pytest.mark.parametrize("algorithm", IN_COORDINATES.values(), ids=IN_COORDINATES)


def excess(objective, algorithm, **settings):
    """Risk above the optimum, mean of three runs."""
    risks = [
        objective.value(algorithm(objective, 0.1, 1e-6, random_state=s, **settings).coef) for s in range(3)
    ]
    return np.mean(risks) - objective.value(nonprivate(objective).coef)


@pytest.mark.parametrize(
    ("loss", "intercept", "n", "expected"),
    [
        (Logistic(), True, 10**5, (0.04, 0.02, 0.01)),
        (Logistic(), False, 10**5, (0.04, 0.02, 0.0)),
        (Hinge(), True, 10**5, (0.04, 0.02, 0.01)),
        (Hinge(), False, 10**5, (0.04, 0.02, 0.0)),
        (Huber(target_bound=1.0), True, 10**5, (0.04, 0.02, 0.01)),
        (Huber(target_bound=1.0), False, 10**5, (0.04, 0.02, 0.0)),
        (Huber(), True, 10**5, (0.04, 0.02, 0.0)),
        (Pinball(0.9, target_bound=1.0), True, 10**5, (0.04, 0.02, 0.01)),
        (Pinball(0.9, target_bound=1.0), True, 2000, (0.0, 0.02, 0.09)),
        (Pinball(0.9, target_bound=1.0), True, 600, (0.0, (1 / 3) ** 2, 0.2)),
        (Pinball(0.9, target_bound=1.0), True, 90, (0.0, 0.15, 0.0)),
        (Logistic(), True, 600, (0.0, (1 / 3) ** 2, 0.0)),
        (Logistic(), True, 100, (0.0, 0.15, 0.0)),
    ],
)
def test_shares_follow_from_public_numbers(loss, intercept, n, expected):
    problem = PublicProblem(n, 21, 0.1, loss, 1.0, intercept=intercept)
    shares = scale_shares(problem)
    assert (shares.column_share, shares.norm_share, shares.label_share) == pytest.approx(expected)
    assert not any(scale_shares(problem, learn=False).shares().values())
    forced = scale_shares(problem, learn=True)
    assert forced.column_share > 0.0
    starts = loss.classification or loss.target_bound < math.inf
    assert (forced.label_share > 0.0) == (intercept and starts)


@learners
def test_a_loose_row_norm_costs_little(algorithm):
    tight, loose = labelled(), labelled(loose=10.0)
    reached = excess(loose, algorithm)
    assert reached < (2.0 if algorithm in (dp_lssgd, dp_sgd_gradient) else 1.5) * excess(tight, algorithm)
    if algorithm not in (noisy_gd, dp_agd, dp_sgd):  # which go as far as classification tolerates
        assert excess(loose, algorithm, learn_scales=False) > 3.0 * reached


def classes(loose, shrunk=1.0):
    """Four classes, rows of norm about 1, every third column shrunk."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 12)) / math.sqrt(12)
    codes = np.argmax(12.0 * (X @ rng.normal(size=(12, 4))) + rng.gumbel(size=(8000, 4)), axis=1)
    X[:, ::3] /= shrunk
    options = {"n_classes": 4, "row_norm": 2.0 * loose, "fit_intercept": True, "n_threads": 1}
    return Objective("softmax", X, codes, **options)


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam])
def test_a_loose_row_norm_costs_little_with_several_classes(algorithm):
    reached = excess(classes(10.0), algorithm)
    assert reached < 1.5 * excess(classes(1.0), algorithm)
    assert reached < 0.7 * excess(classes(10.0), algorithm, learn_scales=False)


def test_shares_of_several_classes():
    public = noisy_gd(classes(1.0), 1.0, 1e-6, learn_scales=True).privacy.public
    assert public["norm_share"] > 0.0
    assert public["column_share"] > 0.0
    assert public["label_share"] == 0.0


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_agd, dp_sgd, dp_lssgd, dp_lsadam])
def test_small_columns_are_learned_with_several_classes(algorithm):
    objective = classes(1.0, shrunk=30.0)
    scaled, plain = (
        np.mean([
            objective.value(algorithm(objective, 3.0, 1e-6, learn_scales=learn, random_state=s).coef)
            for s in range(3)
        ])
        for learn in ("auto", False)
    )  # fmt: skip
    best = objective.value(nonprivate(objective).coef)
    assert scaled - best < 0.7 * (plain - best)


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_agd, dp_sgd])
def test_an_intercept_far_longer_than_the_rows_does_not_slow_several_classes(algorithm):
    """Its entry is 1 where the rows are 1/16 as long: if it kept its length, they would hardly count."""
    objective = classes(1.0)
    short = Objective(
        "softmax", objective._rows.x / 16.0, objective._rows.y, n_classes=4, row_norm=2.0, fit_intercept=True,
        n_threads=1,
    )  # fmt: skip
    assert excess(short, algorithm) < 2.0 * excess(objective, algorithm)


def test_norms_are_counted_alike_for_any_number_of_classes():
    X = np.random.default_rng(0).normal(size=(500, 3))
    scaling, counts = Transform.scaling(np.full(4, 0.5), 1.0), []
    for loss, y in (("softmax", np.arange(500) % 3), ("logistic", np.ones(500))):
        several = {"n_classes": 3} if loss == "softmax" else {}
        sums = norm_counts(Objective(loss, X, y, fit_intercept=True, **several), 16, scaling)
        assert sums.sensitivity("add_or_remove") == pytest.approx(1.0)
        counts.append(release_without_privacy(sums))
    assert np.array_equal(*counts)
    assert counts[0].sum() == 500


@in_coordinates
def test_columns_far_below_the_bound_are_learned(algorithm):
    objective = labelled(shrunk=30.0)
    assert excess(objective, algorithm) < 0.8 * excess(objective, algorithm, learn_scales=False)


def test_noise_alone_hardly_ever_loosens_the_row_norm():
    """Four standard deviations in twelve empty bins: in at most one fit of 2,600, here in at most 4 of 1,500.

    With one of 2,600 more than 4 have a probability of 0.03 %; with three deviations, one fit of 130, at most
    4 would have 1 %.
    """
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    objective = Objective("logistic", X, np.sign(X[:, 0]), row_norm=80.0, n_threads=1)
    clips = [noisy_gd(objective, 2.0, 1e-6, steps=1, random_state=s).privacy.clip for s in range(1500)]
    assert np.sum(np.array(clips) > 1.2 * np.median(clips)) <= 4


@pytest.mark.parametrize(
    ("algorithm", "unit"), [(noisy_gd, 1 / 16), (dp_sgd, 1 / 16), (dp_sgd_gradient, 1.0)]
)
def test_more_budget_does_not_take_the_few_long_rows_for_typical(algorithm, unit):
    """One row in a hundred is ten times as long: with a bound for all rows, steps would be 1/100 as long.

    The clip is stated in the coordinates of the descent, where the longest row has a norm below 1 or, without
    scaling, is as long as it is.
    """
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20_000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[::100] *= 10.0
    objective = Objective("logistic", X, np.sign(X[:, 0]), row_norm=10.0, n_threads=1)
    settings = SHORT[algorithm.__name__] | {"random_state": 0}
    for epsilon in (0.5, 8.0):
        assert algorithm(objective, epsilon, 1e-6, **settings).privacy.clip < 2.0 * unit


def learned_norm_and_lengths(monkeypatch, algorithm, longest, **settings):
    """The norm learned with hardly any noise, and the lengths of the rows, uniform up to the longest."""
    rng, found, learn = np.random.default_rng(0), [], preconditioner._row_norm
    X, lengths = rng.normal(size=(20000, 3)), longest * rng.uniform(size=20000)
    X *= (lengths / np.linalg.norm(X, axis=1))[:, np.newaxis]
    objective = Objective("logistic", X, np.sign(X[:, 0]), row_norm=1.0, n_threads=1)
    monkeypatch.setattr(preconditioner, "_row_norm", lambda *args: found.append(learn(*args)) or found[-1])
    algorithm(objective, 100.0, 1e-6, steps=1, random_state=0, **settings)
    return found[0], lengths


def edge_above(norm):
    """The next edge of a bin; edges are a factor of sqrt(2) apart."""
    return 2.0 ** (0.5 * math.ceil(2.0 * math.log2(norm)))


@pytest.mark.parametrize("longest", [1.0, 0.8, 0.1])
def test_the_learned_norm_is_interpolated(monkeypatch, longest):
    norm, lengths = learned_norm_and_lengths(monkeypatch, noisy_gd, longest)
    exceeded = np.quantile(lengths, 0.98)
    assert 0.995 * exceeded < norm < 0.99 * edge_above(exceeded)


@pytest.mark.parametrize("longest", [1.0, 0.8, 0.1])
@pytest.mark.parametrize(("moments", "factor"), [("gram", 0.84), ("columns", 0.84), ("diagonal", 1.0)])
def test_the_learned_norm_is_shortened_where_square_moments_are_released(
    monkeypatch, longest, moments, factor
):
    settings = {"column_share": 0.0, "moments": moments}
    norm, lengths = learned_norm_and_lengths(monkeypatch, preconditioned_gd, longest, **settings)
    assert norm == pytest.approx(factor * edge_above(lengths.max()), rel=0.01)  # which hardly a row exceeds


def test_the_learned_norm_has_the_limit_that_is_checked_before_the_charge():
    objective = Objective("absolute", np.full((9000, 2), 1e-6), np.ones(9000), row_norm=1.0, n_threads=1)
    settings = SHORT["dp_sgd_gradient"] | {"learn_scales": True, "random_state": 0}
    clip = dp_sgd_gradient(objective, 50.0, 1e-6, **settings).privacy.clip
    assert Norms.LEAST <= clip < 4.0 * Norms.LEAST


def learned_factors(monkeypatch, objective, epsilon, seeds):
    """Factors of the columns in fits with these seeds."""
    seen, learn = [], preconditioner._column_scales
    with monkeypatch.context() as patch:
        patch.setattr(preconditioner, "_column_scales", lambda *args: seen.append(learn(*args)) or seen[-1])
        for seed in range(seeds):
            noisy_gd(objective, epsilon, 1e-6, steps=1, random_state=seed)
    assert len(seen) == seeds
    return np.array(seen)


def test_rare_categories_are_hardly_ever_taken_for_small_columns(monkeypatch):
    """Just below the hundredth of the records from which a column is found, some are found by noise.

    None of 6,000 such columns was scaled in 150 fits. Without the look at entries of the median size 42 were.
    """
    rng = np.random.default_rng(0)
    n, n_rare = 20_000, 40
    rare = rng.permuted(np.tile(np.arange(n) < 0.0098 * n, (n_rare, 1)), axis=1).T.astype(float)
    X = np.hstack([rare, rng.choice([-1.0, 1.0], (n, 4)), rng.uniform(-1e-3, 1e-3, (n, 1))])
    objective = Objective("logistic", X, rng.choice([-1.0, 1.0], n), row_norm=3.0, fit_intercept=True)
    factors = learned_factors(monkeypatch, objective, 4.0, seeds=20)
    assert (factors[:, :-1] == 1.0).all()
    assert (factors[:, -1] > 30.0).all()


def test_a_few_large_entries_do_not_hide_that_a_column_is_small(monkeypatch):
    """Two entries in a hundred are of the size of the other columns; the column is small at every budget."""
    rng = np.random.default_rng(1)
    n = 20_000
    skewed = np.where(np.arange(n) < 0.02 * n, 0.4, 0.1)[:, np.newaxis] * rng.uniform(0.5, 1.0, (n, 1))
    X = np.hstack([rng.choice([-1.0, 1.0], (n, 8)), skewed])
    objective = Objective("logistic", X, rng.choice([-1.0, 1.0], n), row_norm=3.0, fit_intercept=True)
    for epsilon in (0.5, 4.0, 30.0):
        factors = learned_factors(monkeypatch, objective, epsilon, seeds=5)
        assert (factors[:, :-1] == 1.0).all()
        assert (factors[:, -1] >= 2.0).all()


@pytest.mark.parametrize("l2", [0.0, 0.01, 1.0])
def test_small_columns_are_not_scaled_up_far_where_the_ridge_term_is_steep(monkeypatch, l2):
    """Rows are a tenth as long as they might be; one column is a hundred times smaller still."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.choice([-0.1, 0.1], (20_000, 8)), rng.uniform(-1e-3, 1e-3, (20_000, 1))])
    objective = Objective("logistic", X, rng.choice([-1.0, 1.0], 20_000), row_norm=3.0, l2=l2)
    factors = learned_factors(monkeypatch, objective, 4.0, seeds=3)
    curvature = 0.25 * 0.1**2
    assert (factors[:, :-1] == 1.0).all()
    largest = 4.0 * math.sqrt(1.0 + curvature / l2) if l2 else 32.0
    np.testing.assert_allclose(factors[:, -1], largest, rtol=0.5)


@learners
def test_the_ridge_term_is_transformed_to_learned_coordinates(algorithm):
    """In rescaled coordinates the ridge term differs between the axes."""
    rng = np.random.default_rng(0)
    X = rng.random((6000, 8))
    y = np.clip(X @ rng.normal(size=8) + 0.2 * rng.normal(size=6000), -2.0, 2.0)
    objective = Objective(Huber(target_bound=2.0), X, y, row_norm=30.0, l2=0.1, fit_intercept=True)
    reached = excess(objective, algorithm, learn_scales=True)
    assert reached < 0.1 * (objective.value(np.zeros(9)) - objective.value(nonprivate(objective).coef))


@pytest.mark.parametrize("algorithm", [noisy_gd, dp_sgd, dp_lssgd, dp_lsadam, dp_agd, preconditioned_gd])
def test_descents_get_away_from_a_constant_that_a_strong_ridge_term_makes_costly(algorithm):
    """Grades of 3 to 9 are predicted by an intercept of 3; the other weights do the rest."""
    data = load_or_skip("wine_quality", dense=True)
    loss = Huber(target_bound=9.0)
    intercept = {"fit_intercept": True, "penalize_intercept": True}
    objective = Objective(loss, data.X, data.y, l2=0.1, row_norm=data.row_norm, **intercept)
    assert excess(objective, algorithm) < 0.02  # at the weights 0 it is 4.1


@pytest.mark.parametrize(
    "loss",
    [EpsilonInsensitive(0.1, target_bound=1.0), Absolute(target_bound=1.0), Power(1.5, target_bound=1.0)],
)
def test_a_loose_row_norm_does_not_make_clipping_outweigh_a_strong_ridge_term(loss):
    """Gradients clipped far below the length of the rows are weak beside the ridge term."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20)) / math.sqrt(20)
    signal = X @ rng.normal(size=20)
    y = np.clip(0.5 + 0.2 * signal / signal.std(), 0.0, 1.0)
    intercept = {"fit_intercept": True, "penalize_intercept": True}
    tight, loose = (Objective(loss, X, y, l2=1.0, row_norm=norm, **intercept) for norm in (3.0, 60.0))
    assert excess(loose, preconditioned_gd) < 4 * excess(tight, preconditioned_gd)


def in_unit(unit):
    """The same records in another unit; one column is far smaller than the others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5)) * [1.0, 1.0, 1.0, 1e-4, 1.0], rng.choice([-1.0, 1.0], 2000)
    return Objective("logistic", X * unit, y, row_norm=20.0 * unit)


@pytest.mark.parametrize("moments", ["gram", "columns", "diagonal", "none"])
@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("unit", [2.0**-250, 2.0**-40, 2.0**40, 2.0**490])
def test_preconditioned_gd_is_equivariant_to_the_unit_of_the_data(unit, learn, moments):
    """Sums of squares of extreme units are refused, which must not happen after the charge."""

    def fit(unit):
        settings = {"moments": moments, "learn_scales": learn, "steps": 9, "random_state": 0}
        return preconditioned_gd(in_unit(unit), 1.0, 1e-6, **settings).coef

    np.testing.assert_allclose(fit(unit) * unit, fit(1.0), rtol=1e-9, atol=1e-12)


def test_the_intercept_starts_from_the_log_odds_of_rare_labels():
    settings = {"steps": 1, "step_size": 1e-6, "tail": 0.5, "random_state": 0}
    first = preconditioned_gd(labelled(positives=0.02), 1.0, 1e-6, **settings).coef[-1]
    assert first == pytest.approx(math.log(0.02 / 0.98), abs=0.7)


def test_a_hinge_starts_at_its_margin_if_labels_are_rare():
    """From 0 the risk was more than a fifth above the best constant's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 8))
    noisy = 0.3 * (X @ rng.normal(size=8)) + rng.logistic(size=10_000)
    y = np.where(noisy > np.quantile(noisy, 0.97), 1.0, -1.0)
    objective = Objective("hinge", X, y, row_norm=8.0, fit_intercept=True, n_threads=1)
    constant = objective.value(np.eye(9)[8] * -1.0)
    for seed in range(3):
        fit = preconditioned_gd(objective, 0.4, 1e-6, random_state=seed)
        assert objective.value(fit.coef) < 1.1 * constant


@pytest.mark.parametrize("positive", [0.5, 0.9])
def test_a_mean_label_that_noise_explains_leaves_the_intercept_at_0(positive):
    """Noise exceeds twice its size in one fit of 22; in more than 28 of 200 with a probability of 1e-7."""
    y = np.where(np.arange(500) < positive * 500, 1.0, -1.0)
    objective = Objective("logistic", np.zeros((500, 2)), y, row_norm=2.0, fit_intercept=True)
    settings = {"label_share": 0.01, "norm_share": 0.0, "column_share": 0.0, "moments": "none"}
    settings |= {"steps": 1, "step_size": 1e-9, "clip": 1.0}
    fits = [preconditioned_gd(objective, 1.0, 1e-6, random_state=seed, **settings) for seed in range(200)]
    elsewhere = sum(abs(fit.coef[-1]) > 1e-3 for fit in fits)
    assert 0 < elsewhere <= 28 if positive == 0.5 else elsewhere == 200


@learners
@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
def test_releases_of_scales_have_the_stated_noise(neighbors, algorithm):
    """Sensitivities by hand; noise is inversely proportional to the square root of the budget share."""
    seen = []

    def watch(releaser, method, private, multiplier, *args, **kwargs):
        seen.append((private.sensitivity(neighbors), multiplier))
        return method(releaser, private, multiplier, *args, **kwargs)

    with watch_releases(watch):
        algorithm(labelled(), 1.0, 1e-6, neighbors=neighbors, random_state=0, **SHORT[algorithm.__name__])
    columns = algorithm.__name__ in IN_COORDINATES
    shares = np.array([0.04, 0.02, 0.01] if columns else [0.02, 0.01])
    sensitivities, multipliers = np.array(seen[: len(shares)]).T
    of_counts = math.sqrt(2.0) if neighbors == "replace_one" else 1.0
    np.testing.assert_allclose(sensitivities, [*[of_counts] * (len(shares) - 1), of_counts**2])
    np.testing.assert_allclose(multipliers**-2.0, gdp_mu(1.0, 1e-6) ** 2 * shares)


SHORT = {
    "preconditioned_gd": {"steps": 5},
    "noisy_gd": {"steps": 5},
    "dp_agd": {"max_iter": 2, "accountant": "gdp"},
    "dp_sgd": {"steps": 5, "sampling": "poisson"},
    "dp_lssgd": {"steps": 5},
    "dp_lsadam": {"steps": 5},
    "dp_sgd_gradient": {"steps": 5, "batch_size": 100},
}


@learners
def test_learned_scales_make_fits_equivariant_to_the_unit_of_the_data(algorithm):
    """With a ledger, too, which is charged what the releases cost."""

    def fit(unit):
        ledger = Ledger(1.0, 1e-6, allow_seeded=True)
        common = {"learn_scales": True, "random_state": 0, "ledger": ledger, **SHORT[algorithm.__name__]}
        return algorithm(in_unit(unit), 0.9, 1e-7, **common).coef

    for unit in (2.0**-40, 2.0**-3, 2.0**40):
        np.testing.assert_allclose(fit(unit) * unit, fit(1.0), rtol=1e-9, atol=1e-12)


def test_the_statement_lists_settings_fixed_before_the_scales_were_learned():
    """Whitened descent includes its relative step size; others omit settings that follow from the scales."""
    objective = labelled(n=3000)
    whitened, plain = (each(objective, 1.0, 1e-6, steps=5).privacy for each in (preconditioned_gd, noisy_gd))
    assert {"step_size", "norm_share", "momentum"} <= whitened.public.keys()
    assert "learn_scales" not in whitened.public
    assert {"norm_share", "tail"} <= plain.public.keys()
    assert "step_size" not in plain.public
    assert whitened.clip > 0.0
    assert plain.clip > 0.0


def test_settings_in_units_of_the_data_turn_off_learned_scales():
    objective = labelled(n=300)
    for algorithm, own in (
        (noisy_gd, {"radius": 2.0}),
        (dp_sgd, {"step_size": 0.1}),
        (dp_agd, {"clip": 1.0}),
        (dp_lsadam, {"clip": 1.0}),
        (dp_sgd_gradient, {"radius": 2.0}),
    ):
        assert algorithm(objective, 1.0, 1e-6, **own).privacy.public["norm_share"] == 0.0
        with pytest.raises(ValueError, match="is in units of the data"):
            algorithm(objective, 1.0, 1e-6, learn_scales=True, **own)
    targets = Objective(SquaredError(target_bound=1.0), np.eye(3), np.ones(3), n_public=300)
    for algorithm, own in ((noisy_gd, objective), (sufficient_statistics, targets)):
        with pytest.raises(ValueError, match="learn_scales=True needs"):
            algorithm(own, 0.5, 1e-6, calibration="paper", learn_scales=True)
    for algorithm in (dp_sgd, dp_lssgd):
        with pytest.raises(ValueError, match="accountant='pld'"):
            algorithm(objective, 1.0, 1e-6, learn_scales=True, accountant="rdp")


def test_settings_of_scales_are_checked_before_the_charge():
    ledger = Ledger(1.0, 1e-6)
    objective = Objective("hinge", np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match="label_share must be 0"):
        preconditioned_gd(objective, 1.0, 1e-6, label_share=0.1, ledger=ledger)
    for bad in ("yes", 1, 0.5):
        with pytest.raises(ValueError, match="learn_scales must be"):
            preconditioned_gd(objective, 1.0, 1e-6, learn_scales=bad, ledger=ledger)
    with pytest.raises(ValueError, match="shares of scales"):
        preconditioned_gd(objective, 1.0, 1e-6, column_share=0.6, norm_share=0.6, ledger=ledger)
    assert ledger.spent == 0


def test_replacing_a_record_halves_the_signal_of_scales():
    one = PublicProblem(10**4, 20, 0.2, Logistic(), 1.0, neighbors=Neighbours.REPLACE_ONE).per_record()
    other = PublicProblem(10**4, 20, 0.1, Logistic(), 1.0)
    assert scale_shares(one) == scale_shares(other)


@learners
@pytest.mark.parametrize("row_norm", [1e-3, 0.7, 1e3])
def test_intercepts_of_any_length_relative_to_the_rows_are_scaled(algorithm, row_norm):
    """Rows, with their intercept of 1, are scaled down to a bound below 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * min(row_norm, 1.0)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    objective = Objective("logistic", X, y, row_norm=row_norm, fit_intercept=True)
    result = algorithm(objective, 1.0, 1e-6, random_state=0, learn_scales=True, **SHORT[algorithm.__name__])
    assert np.isfinite(result.coef).all()
