"""Least squares from noisy sums: numpy reference, published algorithm, accuracy, budget."""

import math

import numpy as np
import pytest
from scipy import stats

from algorithms.problems import separable
from dperm import Objective
from dperm.accounting import Ledger, gdp_mu
from dperm.algorithms import nonprivate, sufficient_statistics
from dperm.algorithms.preconditioner import Preconditioner
from dperm.losses import Huber, SquaredError
from dperm.objective.moments import regression_sums, symmetric_matrix
from reference import numpy_algorithms as twin
from reference.exact import opened


def linear(n=3000, d=5, seed=0, **keywords):
    X, _ = separable(n, d, seed)
    rng = np.random.default_rng(seed)
    y = X @ rng.normal(size=d) + 0.3 + 0.1 * rng.normal(size=n)
    settings = {"row_norm": 1.5, "fit_intercept": True, **keywords}
    return Objective(SquaredError(2.0), X, y, **settings)


def rows_and_targets(obj):
    """What the objective sees, in numpy."""
    return twin.scaled_rows(obj._rows.x, 1.5, True), np.clip(obj._rows.y, -2, 2)


def test_without_noise_it_reaches_the_optimum():
    for obj in (linear(), linear(l2=0.1), linear(l2=0.1, penalize_intercept=True, fit_intercept=True)):
        result = sufficient_statistics(obj, math.inf, 1e-6)
        np.testing.assert_allclose(result.coef, nonprivate(obj).coef, atol=2e-5)
        assert not result.privacy.private


def far(loose=10.0, unit=1.0, n=20_000):
    """Targets about 3 that hardly vary, with a bound of 30; one column far smaller than the others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 4)) * [1.0, 1.0, 1e-2, 1.0]
    y = 3.0 + X @ [0.2, -0.1, 20.0, 0.0] + 0.05 * rng.normal(size=n)
    row_norm = 2.0 * loose * unit
    return Objective(SquaredError(target_bound=30.0), X * unit, y, row_norm=row_norm, fit_intercept=True)


def test_loose_bounds_cost_little():
    """Of the rows, of the targets, and of a column."""

    def excess(objective, **settings):
        best = objective.value(nonprivate(objective).coef)
        fits = [sufficient_statistics(objective, 1.0, 1e-6, random_state=s, **settings) for s in range(5)]
        return np.mean([objective.value(each.coef) for each in fits]) - best

    reached = excess(far())
    assert reached < 2.0 * excess(far(loose=1.0))
    assert reached < 0.05 * excess(far(), learn_scales=False)


@pytest.mark.parametrize("l2", [0.0, 0.02])
def test_about_a_learned_constant_it_equals_the_numpy_reference(l2, record, monkeypatch):
    found, learn = [], Preconditioner.learned
    monkeypatch.setattr(Preconditioner, "learned", lambda *a: found.append(learn(*a)) or found[-1])
    obj = far()
    obj = Objective(obj.loss, obj._rows.x, obj._rows.y, row_norm=20.0, fit_intercept=True, l2=l2)
    result = sufficient_statistics(obj, 2.0, 1e-6, learn_scales=True, random_state=0)
    (learned,) = found
    assert learned.problem.target_scale < 3.0
    noise = symmetric_matrix(record[-1]["noisy"] - record[-1]["exact"], target=True) / obj.n_public
    t = twin.scaled_rows(obj._rows.x, 20.0, True) * learned.factors
    shorter = np.minimum(1.0, learned.problem.row_norm / np.linalg.norm(t, axis=1))
    limit = learned.problem.target_scale * max(learned.problem.signal / 1000.0, 1.0)
    distances = np.clip(obj._rows.y - learned.start[-1], -limit, limit)
    factor = 0.7 * learned.problem.row_norm / limit
    rows = t * shorter[:, None]
    moments = rows.T @ rows / obj.n_public + noise[:-1, :-1]
    ridge = l2 * np.append(learned.factors[:-1], 0.0)
    products = rows.T @ (shorter * distances) / obj.n_public + noise[:-1, -1] / factor
    values, vectors = np.linalg.eigh(moments)
    scale = record[-1]["sigma"] / obj.n_public
    values = np.maximum(values, scale / 29 * math.sqrt(10))
    matrix = (vectors * values) @ vectors.T + np.diag(ridge * learned.factors)
    u = np.linalg.solve(matrix, products)
    u *= 1.0 - (scale / 41 / factor) ** 2 * np.trace(np.linalg.inv(matrix)) / (products @ u)
    np.testing.assert_allclose(result.coef, learned.start + learned.factors * u, rtol=2e-4, atol=2e-4)


def test_learned_scales_make_it_equivariant_to_the_unit_of_the_rows():
    def coef(unit):
        X, y = far(n=3000)._rows.x * unit, far(n=3000)._rows.y - 3.0
        obj = Objective(SquaredError(target_bound=30.0), X, y, row_norm=20.0 * unit)
        return sufficient_statistics(obj, 1.0, 1e-6, learn_scales=True, random_state=0).coef

    for unit in (2.0**-40, 2.0**-3, 2.0**40):
        np.testing.assert_allclose(coef(unit) * unit, coef(1.0), rtol=1e-9, atol=1e-12)


def adassp(rows, y, row_norm, target_bound, epsilon, delta, rng):
    """Wang 2018, Algorithm 2, as published."""
    d = rows.shape[1]
    log_term = math.log(6 / delta)
    scale, third = row_norm**2 / (epsilon / 3), math.sqrt(log_term) / (epsilon / 3)
    smallest = np.linalg.eigvalsh(rows.T @ rows)[0] + third * row_norm**2 * rng.normal() - log_term * scale
    ridge = math.sqrt(d * log_term * math.log(2 * d**2 / 0.05)) * scale - max(smallest, 0.0)
    noise = np.triu(rng.normal(size=(d, d)))
    noise = (noise + np.triu(noise, 1).T) * third * row_norm**2
    products = rng.normal(size=d) * third * row_norm * target_bound
    return twin.least_squares_by_statistics(rows, y, noise, products, max(ridge, 0.0))


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_paper_mode_is_the_published_algorithm(epsilon):
    """The same distribution: a two-sample test of every weight, false alarm 1e-6."""
    obj = linear(n=5000)
    rows, y = rows_and_targets(obj)
    rng = np.random.default_rng(1)
    ours = [
        sufficient_statistics(obj, epsilon, 1e-6, calibration="paper", random_state=s).coef
        for s in range(200)
    ]
    published = [adassp(rows, y, 1.5, 2.0, epsilon, 1e-6, rng) for _ in range(200)]
    for j in range(6):
        assert stats.ks_2samp([w[j] for w in ours], [w[j] for w in published]).pvalue > 1e-6 / 6


def test_published_noise_that_is_too_small_is_refused():
    ledger = Ledger(1e3, 0.5)
    with pytest.raises(ValueError, match="does not give"):
        sufficient_statistics(linear(), 60.0, 1e-2, calibration="paper", ledger=ledger)
    assert ledger.spent == 0.0


def test_paper_mode_makes_three_releases_within_the_budget(record):
    result = sufficient_statistics(linear(), 0.7, 1e-7, calibration="paper")
    assert [each["exact"].shape for each in record] == [(1,), (21,), (6,)]
    assert {each["multiplier"] for each in record} == {3 * math.sqrt(math.log(6e7)) / 0.7}
    assert record[0]["budget"].spent_units <= record[0]["budget"].total_units
    assert result.privacy.steps == 3


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_of_the_separate_sums_stay_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    X, y = rng.normal(size=(n + 1, d)) * rng.choice([0.1, 3.0]), rng.normal(size=n + 1) * 3
    pairs = [Objective(SquaredError(2.0), X[:k], y[:k], row_norm=1.5, n_public=n) for k in (n, n + 1)]
    for private, other in zip(*(regression_sums(o, 0.7) for o in pairs), strict=True):
        assert np.linalg.norm(opened(private) - opened(other)) <= private.sensitivity("add_or_remove")


def test_the_bounds_of_the_separate_sums_are_attained():
    one = Objective(SquaredError(2.0), np.array([[1.5]]), [2.0], row_norm=1.5, n_public=1000)
    for private in regression_sums(one, 0.7):
        value = np.linalg.norm(opened(private))
        assert 0.999 * private.add_or_remove < value <= private.add_or_remove


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_it_beats_the_published_algorithm(epsilon):
    """Mean excess risk of 20 runs each."""
    obj = linear(n=5000)
    rows, y = rows_and_targets(obj)
    best = obj.value(nonprivate(obj).coef)
    rng = np.random.default_rng(0)
    ours = np.mean(
        [obj.value(sufficient_statistics(obj, epsilon, 1e-6, random_state=s).coef) for s in range(20)]
    )
    published = np.mean([obj.value(adassp(rows, y, 1.5, 2.0, epsilon, 1e-6, rng)) for _ in range(20)])
    assert ours - best < 0.9 * (published - best)


@pytest.mark.parametrize(
    ("neighbors", "square"),
    [("add_or_remove", 1 + 2 * 0.7**2), ("replace_one", 2 * (1 + 2 * 0.7**2) + 2 * 0.7**4)],
)
def test_noise_of_the_single_release(neighbors, square):
    privacy = sufficient_statistics(linear(), 0.7, 1e-7, neighbors=neighbors, learn_scales=False).privacy
    expected = 29 * 1.5**2 * math.sqrt(square)
    assert privacy.sensitivity == pytest.approx(expected, rel=1e-4)
    assert privacy.noise_scale == pytest.approx(privacy.sensitivity / gdp_mu(0.7, 1e-7), rel=1e-6)


def test_noise_that_exceeds_the_signal_gives_small_weights():
    obj = linear(n=100)
    sizes = [np.abs(sufficient_statistics(obj, 0.05, 1e-6, random_state=s).coef).max() for s in range(20)]
    assert np.median(sizes) < 2.0


@pytest.mark.parametrize(
    ("loss", "message"), [(SquaredError(), "public bound"), (Huber(1.0, target_bound=1.0), "squared_error")]
)
def test_other_losses_are_refused_before_the_charge(loss, message):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match=message):
        sufficient_statistics(Objective(loss, *separable(n=10)), 1.0, 1e-6, ledger=ledger)
    assert ledger.spent == 0.0


def test_noise_too_large_for_the_exact_sampler_is_refused_before_the_charge():
    for n in (20, 300):
        objective, smallest = linear(n=n), 1.0
        for neighbors in ("add_or_remove", "replace_one"):
            while True:  # halve epsilon until it is refused; until then every fit must succeed
                ledger = Ledger(1.0, 1e-6, neighbors=neighbors)
                try:
                    sufficient_statistics(objective, smallest, 1e-10, ledger=ledger, neighbors=neighbors)
                except ValueError as error:
                    refusal = error
                    break
                smallest /= 2.0
            assert "drowns the sums" in str(refusal)
            assert not ledger.history()
            smallest *= 4.0


def test_paper_mode_checks_noise_before_the_charge():
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match="drowns the sums"):
        sufficient_statistics(linear(n=300), 1e-6, 1e-10, calibration="paper", ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_too_many_records_for_exact_moments_are_refused_before_the_charge(calibration):
    ledger = Ledger(1.0, 1e-6)
    loss = SquaredError(target_bound=1.0)
    many = Objective(loss, np.zeros((4, 40)), np.zeros(4), row_norm=1.0, n_public=2**44)
    with pytest.raises(ValueError, match="second moments"):
        sufficient_statistics(many, 1.0, 1e-6, calibration=calibration, ledger=ledger)
    assert not ledger.history()
