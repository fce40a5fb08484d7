"""Audits: no algorithm leaks more than it claims, and every planted fault is found.

Trainings come from fixed seeds, so an outcome never changes by itself. With other seeds a true claim
would be contradicted with probability 1e-6 per audit (the confidence), and a planted fault missed with
the probabilities that the comments compute.
"""

import math
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom, norm

from dperm import Objective, algorithms, audit
from dperm.accounting import gaussian_delta, gdp_epsilon, gdp_mu
from dperm.audit import bounds, epsilon_lower_bound, replay_check, worst_case_neighbours
from dperm.audit.statistics import learn_statistic, share_ordered
from dperm.bounded import Bounded
from dperm.mechanisms import release

DELTA = 1e-3
CONFIDENCE = 1 - 1e-6


# -- faults -------------------------------------------------------------------------------------------


@contextmanager
def halved_noise():
    """All Gaussian noise has half the standard deviation that was charged."""
    honest = release.gaussian_integers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            release,
            "gaussian_integers",
            lambda bits, sigma, exponent, shape: honest(bits, sigma / 2, exponent, shape),
        )
        yield


@contextmanager
def skipped_clip():
    """Gradients are clipped at 100 times the bound that the sum carries."""
    honest = Objective.clipped_gradient_sum

    def unclipped(self, w, clip, **kwargs):
        stated, loose = honest(self, w, clip, **kwargs), honest(self, w, 100 * clip, **kwargs)
        return Bounded(loose._integers, grid=loose.grid, contribution=stated.contribution)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "clipped_gradient_sum", unclipped)
        yield


@contextmanager
def heavy_label():
    """A record counts three times in the sum of the labels, which still states 1."""
    honest = Objective.label_sum

    def heavy(self):
        stated = honest(self)
        return Bounded(3 * stated._integers, grid=stated.grid, contribution=stated.contribution)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "label_sum", heavy)
        yield


# -- every algorithm ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Configuration:
    """How an algorithm is audited.

    ``epsilon`` is the claim: large enough that few trainings tell a fault. ``share`` is how much of the
    claimed mu the transcript is sure to show; the rest pays for accesses that leak less here than they may.
    """

    settings: dict
    faults: tuple
    epsilon: float = 4.0
    trainings: int = 800
    share: float = 0.9
    fit_intercept: bool = False


CONFIGURATIONS = {
    "noisy_gd": Configuration({"steps": 12, "clip": 0.01}, (halved_noise, skipped_clip)),
    "dp_agd": Configuration(
        # few line searches on few candidates: they cost time and show little
        {"splits": 6, "clip": 0.01, "n_candidates": 4, "accountant": "gdp"},
        (halved_noise, skipped_clip),
        share=0.7,
    ),
    "majority": Configuration(
        # less noise would drown in its rounding to whole labels
        {},
        (halved_noise, heavy_label),
        epsilon=2.0,
        trainings=6000,
        fit_intercept=True,
    ),
    "nonprivate": Configuration({}, ()),
}
PRIVATE = sorted(name for name, entry in CONFIGURATIONS.items() if entry.faults)


def test_every_algorithm_has_a_configuration():
    public = {name for name in algorithms.__all__ if name[0].islower()}
    assert public == set(CONFIGURATIONS)


def measure(name, relation="add_or_remove", **changes):
    entry = CONFIGURATIONS[name]
    pair = worst_case_neighbours(n=50, d=3, relation=relation, fit_intercept=entry.fit_intercept)
    algorithm = getattr(algorithms, name)

    def run(objective, seed):
        return algorithm(
            objective, entry.epsilon, DELTA, neighbors=relation, random_state=seed, **entry.settings
        )

    return epsilon_lower_bound(
        audit.Transcript(run, pair),
        pair,
        delta=DELTA,
        claim=entry.epsilon,
        **{
            "trainings": entry.trainings,
            "confidence": CONFIDENCE,
            "n_jobs": 1,
            "random_state": 0,
            **changes,
        },
    )


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("name", PRIVATE)
def test_the_audit_stays_below_the_claim(name, relation):
    result = measure(name, relation)
    assert not result.violates(), result
    # It also sees most of what is there: m pairs tell mu (about 1) with a deviation of 2 / sqrt(m).
    error = 2 / math.sqrt(result.certified / 2)
    estimate = -math.sqrt(2) * norm.ppf(result.false_negative_rate)
    assert estimate > CONFIGURATIONS[name].share * gdp_mu(result.claim, DELTA) - 5 * error, result


@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name in PRIVATE for fault in CONFIGURATIONS[name].faults]
)
def test_planted_faults_are_found(name, fault):
    with fault():
        result = measure(name)
    assert result.violates(), result
    assert "VIOLATED" in str(result)


@pytest.mark.parametrize("name", ["nonprivate", "majority"])
def test_what_is_exact_is_reported_as_not_private(name):
    entry = CONFIGURATIONS[name]
    pair = worst_case_neighbours("opposite", n=50, d=3, fit_intercept=entry.fit_intercept)
    algorithm = getattr(algorithms, name)
    fit = audit.Coefficients(lambda objective, seed: algorithm(objective))
    claim = fit.run(pair.first.objective, 0).privacy.epsilon
    result = epsilon_lower_bound(fit, pair, delta=1e-6, trainings=80, claim=claim, n_jobs=1, random_state=0)
    assert claim == math.inf
    assert "NOT PRIVATE" in str(result)
    # 20 pairs without an error: loss below 1 - 1e-6^(1/20) = 0.499; with confidence 0.95 below 0.139
    assert result.mu > 1.5
    assert result.violates(gdp_epsilon(1.5, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["orthogonal", "opposite", "silent"])
@pytest.mark.parametrize("name", PRIVATE)
def test_full_audit_at_epsilon_one(name, kind):
    """10,000 trainings with the default schedule but for a clip that the record surely reaches."""
    delta = 1e-5
    entry = CONFIGURATIONS[name]
    pair = worst_case_neighbours(kind, 1000, 10, fit_intercept=entry.fit_intercept)
    algorithm = getattr(algorithms, name)
    settings = {} if name == "majority" else {"clip": 0.01}
    fit = audit.Transcript(
        lambda objective, seed: algorithm(objective, 1.0, delta, random_state=seed, **settings), pair
    )
    result = epsilon_lower_bound(fit, pair, delta=delta, claim=1.0, random_state=1, confidence=0.999)
    assert not result.violates(), result
    # mu = 0.268, known to 0.026: the bound falls below 0.15 where the estimate is 1.4 deviations low
    if name == "noisy_gd" and kind == "orthogonal":
        assert result.epsilon > 0.6


# -- a sampling algorithm that shuffles and claims Poisson --------------------------------------------

BATCHES, EPOCHS, SIGMA = 64, 25, 1.0


def poisson_epsilon(sigma, rate, steps, delta, step=1e-3, size=2**17):
    """Epsilon of ``steps`` Poisson-subsampled Gaussians by convolving rounded-up privacy losses."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    edges = (x[1:] + x[:-1]) / 2
    absent = np.diff(norm.cdf(edges / sigma), prepend=0, append=1)
    present = (1 - rate) * absent + rate * np.diff(norm.cdf((edges - 1) / sigma), prepend=0, append=1)
    right = np.append(edges, x[-1])  # the loss grows with x: the right end of a cell has its largest
    left = np.insert(edges, 0, x[0])
    ratio = lambda at: np.log(1 - rate + rate * np.exp((2 * at - 1) / (2 * sigma**2)))  # noqa: E731
    result = 0.0
    for mass, loss in ((present, ratio(right)), (absent, -ratio(left))):
        cells = np.bincount(np.ceil(loss / step).astype(int) % size, weights=mass, minlength=size)
        total = np.fft.irfft(np.fft.rfft(cells) ** steps, size)
        losses = np.fft.fftfreq(size, 1 / size) * step
        low, high = 0.0, 50.0
        for _ in range(50):
            middle = (low + high) / 2
            excess = (total * -np.expm1(np.minimum(middle - losses, 0.0)))[losses > middle].sum()
            low, high = (middle, high) if excess > delta else (low, middle)
        result = max(result, high)
    return result


@lru_cache
def toy_claim():
    return poisson_epsilon(SIGMA, 1 / BATCHES, BATCHES * EPOCHS, DELTA)


def toy_dp_sgd(present, seed, sampling):
    """Noisy sums of all batches, (epochs, batches): one record of gradient 1 or none, the others have 0."""
    rng = np.random.default_rng(seed)
    if sampling == "poisson":
        sums = 1.0 * (rng.random((EPOCHS, BATCHES)) < 1 / BATCHES)
    else:  # dealt into batches once, which each epoch passes through
        sums = np.zeros((EPOCHS, BATCHES))
        sums[:, rng.integers(BATCHES)] = 1.0
    return present * sums + SIGMA * rng.normal(size=(EPOCHS, BATCHES))


def always_in_one_batch(observations):
    """Log-likelihood ratio of a record that is in the same batch all along."""
    sums = observations.reshape(-1, EPOCHS, BATCHES).sum(axis=1)
    return np.log(np.mean(np.exp((sums - EPOCHS / 2) / SIGMA**2), axis=1))


def in_random_batches(observations):
    """Log-likelihood ratio under Poisson sampling."""
    ratio = np.exp((observations - 0.5) / SIGMA**2)
    return np.log1p((ratio - 1) / BATCHES).sum(axis=1)


@pytest.mark.parametrize("statistic", [always_in_one_batch, in_random_batches])
@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_shuffling_accounted_as_poisson_is_found(sampling, statistic):
    """No GDP claim here: only the method that assumes nothing is right."""
    result = epsilon_lower_bound(
        lambda present, seed: toy_dp_sgd(present, seed, sampling),
        (False, True),
        delta=DELTA,
        trainings=4000,
        statistic=statistic,
        method="clopper_pearson",
        claim=toy_claim(),
        confidence=CONFIDENCE,
        n_jobs=1,
        random_state=0,
    )
    assert result.violates() == (sampling == "shuffled" and statistic is always_in_one_batch), result


def test_the_toy_accountant_is_the_gaussian_one_without_sampling():
    epsilon = poisson_epsilon(2.0, 1.0, 4, 1e-3)
    assert 1e-3 * (1 - 0.02) < gaussian_delta(epsilon, 2.0, 2.0) <= 1e-3


# -- the bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("events", "trials"), [(0, 50), (1, 50), (25, 50), (49, 50)])
def test_clopper_pearson_is_exact(events, trials):
    high = bounds.rate_upper_bound(events, trials, 0.99)
    assert binom.cdf(events, trials, high) == pytest.approx(0.01, rel=1e-9)
    assert bounds.rate_upper_bound(trials, trials, 0.99) == 1.0


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_bounds_are_attained_by_the_gaussian_mechanism(mu):
    """With exact error rates mu comes back, and epsilon is the largest that the rates allow."""
    for threshold in (-1.0, 0.0, 2.5):
        alpha, beta = norm.sf(threshold), norm.cdf(threshold - mu)
        assert bounds.mu_from_rates(alpha, beta) == pytest.approx(mu, rel=1e-9)
        for delta in (0.0, 1e-3):
            epsilon = bounds.epsilon_from_rates(alpha, beta, delta)
            assert gaussian_delta(epsilon, 1 / mu) >= delta * (1 - 1e-9)
    assert bounds.mu_from_pairs(norm.cdf(-mu / math.sqrt(2))) == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.2, 1.0, 6.0])
def test_epsilon_of_mu_is_rounded_down(mu):
    epsilon = bounds.epsilon_of_mu(mu, 1e-6)
    assert epsilon == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-8)
    assert epsilon == 0.0 or gdp_mu(epsilon, 1e-6) <= mu


def test_randomized_response_is_judged_by_its_epsilon():
    """A coin that tells the truth with odds 3: epsilon = log 3, and no Gaussian."""

    def fit(data, seed):
        return data if np.random.default_rng(seed).random() < 0.75 else 1 - data

    result = epsilon_lower_bound(
        fit, (0, 1), delta=0.0, trainings=4000, method="clopper_pearson", n_jobs=1, random_state=0
    )
    # both errors are 1/4 with deviation 0.0102: the bound is below the truth by 4 % to 25 %
    assert 0.75 * math.log(3) < result.epsilon < math.log(3)


@pytest.mark.parametrize("method", ["gdp", "gdp_threshold", "clopper_pearson"])
def test_a_true_claim_is_contradicted_as_rarely_as_stated(method):
    """2-GDP, 400 audits at confidence 0.9: at most 40 false alarms expected."""
    claim = gdp_epsilon(2.0, 1e-3)
    rng = np.random.default_rng(0)
    false_alarms = 0
    for _ in range(400):
        result = epsilon_lower_bound(
            lambda data, seed: data + np.random.default_rng(seed).normal(),
            (0.0, 2.0),
            delta=1e-3,
            trainings=60,
            confidence=0.9,
            method=method,
            n_jobs=1,
            random_state=rng,
        )
        false_alarms += result.violates(claim)
    assert false_alarms <= binom.ppf(1 - 1e-6, 400, 0.1)


def test_pairs_certify_more_than_thresholds_and_both_more_than_no_assumption():
    mu = {
        method: epsilon_lower_bound(
            lambda data, seed: data + np.random.default_rng(seed).normal(),
            (0.0, 0.3),
            delta=1e-5,
            trainings=10_000,
            method=method,
            n_jobs=1,
            random_state=0,
        ).epsilon
        for method in ("gdp", "gdp_threshold", "clopper_pearson")
    }
    assert mu["gdp"] > mu["gdp_threshold"] > mu["clopper_pearson"] > 0.0


def test_rare_catastrophes_are_found_by_a_threshold():
    """One run in 50 gives the data away: comparing pairs would hardly show it."""

    def fit(data, seed):
        rng = np.random.default_rng(seed)
        return 100.0 * data if rng.random() < 0.02 else rng.normal()

    result = epsilon_lower_bound(
        fit, (0, 1), delta=1e-5, trainings=10_000, n_jobs=1, random_state=0, claim=0.5
    )
    assert result.threshold is not None
    assert result.violates()


def test_a_direction_is_learned_from_vectors():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(6, 6))
    shift = np.linalg.solve(mixing.T @ mixing, np.ones(6))
    shift *= 1.5 / np.linalg.norm(np.linalg.solve(mixing.T, shift))
    first, second = (rng.normal(size=(2000, 6)) @ mixing + present * shift for present in (0, 1))
    score = learn_statistic(first[:1000], second[:1000])
    achieved = share_ordered(score(first[1000:]), score(second[1000:]))
    # the best possible share is Phi(1.5 / sqrt 2) = 0.856, with a deviation of 0.0085
    assert achieved > 0.856 - 5 * 0.0085


def test_processes_give_the_same_answer_as_one():
    pair = worst_case_neighbours(n=20, d=2)
    fit = audit.Transcript(
        lambda objective, seed: algorithms.noisy_gd(objective, 2.0, 1e-3, steps=3, random_state=seed), pair
    )
    one, two = (
        epsilon_lower_bound(fit, pair, delta=1e-3, trainings=200, n_jobs=jobs, random_state=5, progress=True)
        for jobs in (1, 2)
    )
    assert one == two


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "luck"},
        {"trainings": 10},
        {"confidence": 1.0},
        {"delta": 0.0},
        {"learn_share": 1.0},
        {"neighbours": (1, 2, 3)},
    ],
)
def test_bad_arguments_are_named(settings):
    call = {"neighbours": (0.0, 1.0), "delta": 1e-3, "n_jobs": 1, **settings}
    with pytest.raises(ValueError, match=next(iter(settings))):
        epsilon_lower_bound(lambda data, seed: data, **call)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        epsilon_lower_bound(lambda data, seed: math.nan, (0, 1), delta=1e-3, n_jobs=1, trainings=20)


# -- neighbours ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["orthogonal", "opposite", "silent"])
@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_worst_case_neighbours_differ_by_the_whole_sensitivity(kind, relation):
    pair = worst_case_neighbours(kind, 40, 3, relation, row_norm=2.0)
    assert [data.objective.n_public for data in pair] == [40, 40]
    one, other = (data.objective.clipped_gradient_sum(np.zeros(3), 0.5) for data in pair)
    change = release.release_without_privacy(other) - release.release_without_privacy(one)
    assert np.linalg.norm(change) == pytest.approx(one.sensitivity(relation), rel=1e-6)
    assert abs(change @ pair.direction) == pytest.approx(np.linalg.norm(change))
    rows = [{(*row, label) for row, label in zip(data.X, data.y, strict=True)} for data in pair]
    assert len(rows[0] ^ rows[1]) <= 2


# -- record and replay --------------------------------------------------------------------------------


def replay(run, relation="add_or_remove", fit_intercept=False, **kwargs):
    pair = worst_case_neighbours(n=50, d=3, relation=relation, fit_intercept=fit_intercept, **kwargs)
    return replay_check(run, pair.first.objective, pair.second.objective)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("random_state", [None, 3])
@pytest.mark.parametrize("name", PRIVATE)
def test_replay_passes_for_every_private_algorithm(name, relation, random_state):
    entry = CONFIGURATIONS[name]
    report = replay(
        lambda objective: getattr(algorithms, name)(
            objective, 4.0, DELTA, neighbors=relation, random_state=random_state, **entry.settings
        ),
        relation,
        entry.fit_intercept,
    )
    assert report.ok, report
    assert report.accesses >= 1
    # the worst case is one: the sensitivity is used up
    assert 0.999 < report.largest_share <= 1.0
    assert "passed" in str(report)


def small(objective, **settings):
    return algorithms.noisy_gd(
        objective, 4.0, DELTA, **{"steps": 5, "clip": 0.01, "random_state": 0, **settings}
    )


def with_exact_sum(objective):
    exact = release.release_without_privacy(objective.clipped_gradient_sum(np.zeros(3), 0.1))
    result = small(objective)
    return algorithms.FitResult(result.coef + exact, result.privacy, result.n_iter, result.history)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (with_exact_sum, "coef depends on the data"),
        (algorithms.nonprivate, "coef depends on the data"),
        (lambda objective: small(objective, clip=0.01 + objective.value(np.ones(3))), "contribution is"),
        (lambda objective: small(objective, steps=int(100 * objective.value(np.ones(3)))), "access"),
    ],
)
def test_replay_finds_what_depends_on_the_data(run, problem):
    report = replay(run)
    assert not report.ok
    assert problem in str(report)


def test_replay_finds_a_skipped_clip():
    with skipped_clip():
        report = replay(small)
    assert not report.ok
    assert "times its sensitivity" in report.problems[0]
    assert report.largest_share > 10.0


def test_replay_finds_a_private_number_of_records():
    n = 2**19 + 1  # one more than a power of two: the grid of exact sums is coarser
    X, y = np.ones((n, 1)), np.ones(n)
    report = replay_check(small, Objective("logistic", X, y), Objective("logistic", X[:-1], y[:-1]))
    assert any("grid is" in problem for problem in report.problems)


def test_replay_finds_a_run_that_fails_on_the_neighbour():
    calls = []

    def run(objective):
        calls.append(objective)
        if len(calls) == 2:
            raise FloatingPointError("diverged")
        return small(objective)

    assert "raised FloatingPointError" in str(replay(run))


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3)])
def test_replay_finds_another_number_of_accesses(first, second):
    """The same noise per step, so that only the length gives it away."""
    steps = iter([first, second])

    def run(objective):
        from dperm.accounting.budget import Budget
        from dperm.mechanisms.release import Releaser

        door = Releaser(
            1.0,
            1e-3,
            Budget.from_epsilon(1.0, 1e-3),
            neighbors="add_or_remove",
            ledger=None,
            random_state=0,
            description="test",
        )
        for _ in range(next(steps)):
            door.gaussian_sum(objective.clipped_gradient_sum(np.zeros(3), 0.1), 50.0)
        return small(objective)

    report = replay(run)
    assert not report.ok
    assert any("accesses" in problem or "arguments" in problem for problem in report.problems)


def test_a_watcher_leaves_with_its_block():
    def broken(*_):
        raise RuntimeError("watching")

    objective = worst_case_neighbours(n=5, d=2).second.objective
    with pytest.raises(RuntimeError, match="watching"), release.watch_releases(broken):
        small(objective)
    assert small(objective).n_iter == 5
