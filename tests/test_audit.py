"""Audits: no algorithm leaks more than it claims, and every planted fault is detected.

Trainings have fixed seeds, so results are reproducible. With other seeds a true claim would be rejected with
probability 1e-6 per audit (the confidence), and a planted fault missed with a probability below 1e-4: it
doubles mu, and the standard error of the estimate is a sixth of the difference.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from audit_faults import (
    CONFIGURATIONS,
    GIVEN_BATCHES,
    OTHER_CLAIMS,
    PRIVATE,
    PUBLISHED,
    halved_noise,
    weighted,
)
from dperm import algorithms, audit
from dperm.accounting import gdp_epsilon, gdp_mu, zcdp_rho
from dperm.audit import epsilon_lower_bound, worst_case_neighbours
from dperm.audit.bounds import epsilon_from_rates
from dperm.mechanisms import release_without_privacy
from dperm.objective.gradients import clipped_gradient_sum
from reference.exact import RELATIONS_ONE_SLOW

ONE_PROCESS = {"confidence": 1 - 1e-6, "n_jobs": 1, "random_state": 0}


def test_every_algorithm_has_a_configuration():
    public = {name for name in algorithms.__all__ if name[0].islower()}
    assert public == set(CONFIGURATIONS)


def observed(entry, run, pair):
    """What the audit observes: all releases, or the final weights along the row of the differing record."""
    if not entry.secret:
        return {"fit": audit.Transcript(run, pair), "neighbours": pair}

    def along_the_row(coefs):
        return coefs[:, : len(pair.direction)] @ pair.direction

    return {"fit": audit.Coefficients(run), "neighbours": pair, "statistic": along_the_row}


def measure(name, relation="add_or_remove", entry=None, n=50, **changes):
    entry = entry or CONFIGURATIONS[name]
    objective = {"fit_intercept": entry.fit_intercept, "l2": entry.l2, "loss": entry.loss}
    pair = worst_case_neighbours(entry.kind, n=n, d=entry.d, relation=relation, **objective)
    if entry.weight_bound is not None:
        pair = weighted(pair, entry.weight_bound)
    algorithm, settings = getattr(algorithms, name), {"neighbors": relation, **entry.settings}

    def run(objective, seed):
        return algorithm(objective, entry.epsilon, entry.delta, random_state=seed, **settings)

    known = {"claim": entry.epsilon, "method": entry.method, "trainings": entry.trainings}
    return epsilon_lower_bound(
        **{**observed(entry, run, pair), "delta": entry.delta, **ONE_PROCESS, **known, **changes}
    )


def error_of(result):
    """Standard error of the estimated mu, for mu about 1."""
    return 2 / math.sqrt(result.certified / 2)


def estimated_mu(result):
    """mu estimated from the error rate of telling pairs apart."""
    return -math.sqrt(2) * norm.ppf(result.false_negative_rate)


def violation(audited, trainings):
    """An audit that finds a violation, with as few trainings as it takes, or the one with all `trainings`."""
    for share in (0.1, 0.3, 0.6):
        result = audited(trainings=2 * round(share * trainings / 2))
        if result.violates():
            return result
    return audited(trainings=trainings)


def assert_audit_is_powerful(result, entry):
    """The audit is powerful enough: it detects at least the configured share of the claim."""
    if entry.share is None:
        return
    if entry.method == "clopper_pearson":
        rates = result.false_positive_rate, result.false_negative_rate
        assert epsilon_from_rates(*rates, entry.delta) >= entry.share * entry.epsilon, result
    elif entry.method == "zcdp":
        assert result.rho > entry.share * zcdp_rho(entry.epsilon, entry.delta), result
    else:
        mu = gdp_mu(result.claim, entry.delta)
        assert estimated_mu(result) > entry.share * mu - 5 * error_of(result), result


@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
@pytest.mark.parametrize("name", PRIVATE)
def test_audited_leakage_is_within_the_claim(name, relation):
    result = measure(name, relation)
    assert not result.violates(), result
    assert_audit_is_powerful(result, CONFIGURATIONS[name])


@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name in PRIVATE for fault in CONFIGURATIONS[name].faults]
)
def test_planted_faults_are_detected(name, fault):
    with fault():
        result = violation(partial(measure, name), CONFIGURATIONS[name].trainings)
    assert result.violates(), result
    assert "VIOLATED" in str(result)


@pytest.mark.parametrize(("name", "relation", "entry"), OTHER_CLAIMS.values(), ids=OTHER_CLAIMS)
def test_other_claims_hold_and_faults_violate_them(name, relation, entry):
    assert_honest_passes_and_faults_fail(entry, partial(measure, name, relation, entry))


def assert_honest_passes_and_faults_fail(entry, audited):
    honest = audited()
    assert not honest.violates(), honest
    assert_audit_is_powerful(honest, entry)
    for fault in entry.faults:
        with fault():
            result = violation(audited, entry.trainings)
        assert result.violates(), result
    return honest


def stated_mu(name, entry):
    """mu of all releases together, computed from the privacy statement."""
    pair = worst_case_neighbours(entry.kind, n=50, d=entry.d, loss=entry.loss)
    fit = getattr(algorithms, name)(pair.second.objective, entry.epsilon, entry.delta, **entry.settings)
    if fit.privacy.rho is not None:
        return math.sqrt(2 * fit.privacy.rho)
    return math.sqrt(fit.privacy.steps) * fit.privacy.sensitivity / fit.privacy.noise_scale


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_noise_is_as_large_as_stated(name):
    """False alarms have probability 1e-6, as everywhere; halved noise passes with probability 1e-4.

    Halved noise doubles mu: by 8.5 standard errors or more, of which the confidence takes 4.8.
    """
    entry = PUBLISHED[name]
    mu = stated_mu(name, entry)
    claim = gdp_epsilon(mu, entry.delta)
    assert claim < entry.epsilon
    honest = assert_honest_passes_and_faults_fail(entry, partial(measure, name, entry=entry, claim=claim))
    assert mu > 8.5 * error_of(honest)


def given_batches(name, relation, trainings=1350):
    """Audit the noise of small batches at (1, 1e-6) by an observer who knows the batches."""
    sums, settings = GIVEN_BATCHES[name]
    pair = worst_case_neighbours(n=20, d=3, relation=relation)
    algorithm = getattr(algorithms, name)

    def run(objective, seed):
        return algorithm(objective, 1.0, 1e-6, neighbors=relation, random_state=seed, **settings)

    privacy = run(pair.second.objective, 0).privacy
    mu = math.sqrt(sums) * privacy.sensitivity / privacy.noise_scale
    fit, claim = audit.Transcript(run, pair, known_batches=sums), gdp_epsilon(mu, 1e-6)
    return epsilon_lower_bound(fit, pair, delta=1e-6, claim=claim, trainings=trainings, **ONE_PROCESS), mu


@pytest.mark.parametrize("name", ["dp_sgd_gradient", pytest.param("rrpsgd", marks=pytest.mark.slow)])
@pytest.mark.parametrize("relation", RELATIONS_ONE_SLOW)
def test_the_noise_of_small_batches_is_as_large_as_stated(name, relation):
    """At a realistic claim, with one record per step: nearly all of mu is seen, and halved noise detected."""
    honest, mu = given_batches(name, relation)
    assert not honest.violates(), honest
    assert estimated_mu(honest) > 0.9 * mu - 5 * error_of(honest), honest
    assert mu > 8.0 * error_of(honest)
    with halved_noise():
        halved = violation(lambda trainings: given_batches(name, relation, trainings)[0], 1350)
    assert halved.violates(), halved


@pytest.mark.parametrize("name", ["nonprivate", "majority"])
def test_exact_results_are_reported_as_not_private(name):
    entry = CONFIGURATIONS[name]
    pair = worst_case_neighbours("opposite", n=50, d=3, fit_intercept=entry.fit_intercept, l2=0.1)
    algorithm = getattr(algorithms, name)
    fit = audit.Coefficients(lambda objective, seed: algorithm(objective))
    claim = fit.run(pair.first.objective, 0).privacy.epsilon
    result = epsilon_lower_bound(fit, pair, delta=1e-6, trainings=80, claim=claim, n_jobs=1, random_state=0)
    assert claim == math.inf
    assert "NOT PRIVATE" in str(result)
    # 20 pairs without an error: loss below 1 - 1e-6^(1/20) = 0.499; with confidence 0.95 below 0.139
    assert result.mu > 1.5
    assert result.violates(gdp_epsilon(1.5, 1e-6))


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "orthogonal") for name in PRIVATE] + [("noisy_gd", "opposite"), ("noisy_gd", "silent")],
)
def test_full_audit_at_epsilon_one(name, kind):
    """Thousands of short trainings with a clipping norm that the record's gradient exceeds."""
    short = {"noisy_gd": {"steps": 20}, "dp_agd": {"splits": 20}}
    short |= {sampled: {"steps": 20, "batch_size": 100} for sampled in ("dp_sgd", "dp_lssgd", "dp_lsadam")}
    short["dp_sgd_gradient"] = {"steps": 20, "batch_size": 100, "step_size": 0.1}
    short["dp_sgd_output"] = {"passes": 1, "step_size": 0.5, "output": "last", "mechanism": "gaussian"}
    short["rrpsgd"] = {"rounds": 20, "batch_size": 100, "step_size": 0.1}
    entry = CONFIGURATIONS[name]
    entry = replace(
        entry,
        kind=kind,
        d=10,
        epsilon=1.0,
        delta=1e-5,
        settings={"clip": 0.01, **short[name]} if name in short else entry.settings,
        trainings=10_000 if (name, kind) == ("noisy_gd", "orthogonal") else 1500,
    )
    result = measure(name, entry=entry, n=1000, random_state=1, confidence=0.99, n_jobs=None)
    assert not result.violates(), result
    # mu = 0.268 with a standard error of 0.026, of which the confidence takes 2.3; 0.6 is mu = 0.169.
    if name == "noisy_gd" and kind == "orthogonal":
        assert result.epsilon > 0.6


@pytest.mark.parametrize("kind", ["orthogonal", "opposite", "silent"])
@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
def test_worst_case_neighbours_attain_the_sensitivity(kind, relation):
    pair = worst_case_neighbours(kind, 40, 3, relation, row_norm=2.0)
    assert [data.objective.n_public for data in pair] == [40, 40]
    one, other = (clipped_gradient_sum(data.objective, np.zeros(3), 0.5) for data in pair)
    change = release_without_privacy(other) - release_without_privacy(one)
    assert np.linalg.norm(change) == pytest.approx(one.sensitivity(relation), rel=1e-6)
    assert abs(change @ pair.direction) == pytest.approx(np.linalg.norm(change))
    assert np.linalg.norm(pair.second.X[-1]) == 2.0
    rows = [{(*row, label) for row, label in zip(data.X, data.y, strict=True)} for data in pair]
    assert len(rows[0] ^ rows[1]) <= 2
