"""What fits released, composed by other code than the package's own, against what they claim."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_ndtr, ndtr, ndtri
from scipy.stats import binom

from algorithms.every_algorithm import PRIVATE, problem_for
from dperm.accounting.events import ExponentialMechanismRelease, GaussianRelease, PureRelease
from dperm.mechanisms.hooks import replace_noise, samplers
from dperm.mechanisms.records import ReleaseRecord
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

pmfs = pytest.importorskip("dp_accounting.pld.pld_pmf")
plds = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
rdp, events = pytest.importorskip("dp_accounting.rdp"), pytest.importorskip("dp_accounting")

N = 2000
RELATIONS = ("add_or_remove", "replace_one")
FACTOR = {"add_or_remove": 1, "replace_one": 2}  # contributions by which a record moves a sum


# Published noise is used here outside its proof, too; and the other accountant exponentiates large losses.
OUTSIDE_PROOFS = pytest.mark.filterwarnings(
    "ignore::dperm.errors.PrivacyWarning", "ignore:overflow encountered:RuntimeWarning"
)


# -- fits, and what they released ------------------------------------------------------------------------


@dataclass(frozen=True)
class Released:
    """What is known of a fit: its statement, what it wrote down, and the scales that it drew with."""

    privacy: PrivacyStatement
    records: list[ReleaseRecord]
    drawn: list[float]
    objective: Objective

    @property
    def factor(self):
        return FACTOR[self.privacy.neighbors]

    @property
    def rate(self):
        return self.privacy.public["batch_size"] / self.privacy.public["n"]

    @property
    def learned(self):
        """How many releases told scales, before the descent."""
        return int("scale_share" in self.privacy.public)

    @property
    def steps(self):
        return self.records[self.learned :]

    @property
    def scales_mu(self):
        return math.hypot(*(record.sensitivity / record.scale for record in self.records[: self.learned]))

    @property
    def count(self):
        return sum(record.count for record in self.steps)

    @property
    def multiplier(self):
        """Scale over sensitivity, the same for all steps."""
        (multiplier,) = {record.scale / record.sensitivity for record in self.steps}
        return multiplier


# The scale of a draw in units of the grid, from what a sampler is given after the random bits.
SCALES = {
    "gaussian": lambda sigma, exponent, shape: math.ldexp(sigma, -exponent),
    "gaussian_ahead": lambda sigma, exponent, shape: math.ldexp(sigma, -exponent),
    "norm_laplace": lambda scale, exponent, shape: math.ldexp(scale, -exponent),
    "exponential_mechanism": lambda scores, rate: 1.0 / rate,
    "permute_and_flip": lambda scores, rate: 1.0 / rate,
    "report_noisy_min": lambda scores, scale: scale,
}


@pytest.fixture
def fitted(monkeypatch):
    """A function that makes a fit. Nothing stands at the door: fits run as they do for everybody."""
    doors, drawn, spend = [], [], Releaser._spend

    def remember(self, record):
        doors.append(self)
        spend(self, record)

    def noting(sampler, scale):
        def draw(bits, *given):
            drawn.append(scale(*given))
            return sampler(bits, *given)

        return draw

    def make(name, objective, **settings):
        del doors[:], drawn[:]
        with replace_noise(**{own: noting(getattr(samplers(), own), SCALES[own]) for own in SCALES}):
            privacy = PRIVATE[name](objective, **settings).privacy
        (door,) = {id(each): each for each in doors}.values()
        return Released(privacy, door.releases, list(drawn), objective)

    monkeypatch.setattr(Releaser, "_spend", remember)
    return make


# -- composition: the epsilon of what was released, at the delta that is claimed --------------------------


def gaussian_delta(epsilon, mu):
    """Of the Gaussian mechanism (Balle and Wang 2018, Theorem 8)."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def root(delta_at, delta):
    """The epsilon at which a decreasing profile is delta."""
    high = 1.0
    while delta_at(high) > delta:
        high *= 2.0
    return brentq(lambda epsilon: math.log(max(delta_at(epsilon), 1e-300) / delta), 0.0, high, xtol=1e-13)


def gaussian_epsilon(mu, delta):
    return root(lambda epsilon: gaussian_delta(epsilon, mu), delta)


def two_point_mu(eta):
    """The largest mu of a pair on two points whose log-ratios differ by eta."""

    def mu(logit):
        return ndtri(expit(logit + eta)) - ndtri(expit(logit))

    found = minimize_scalar(
        lambda x: -mu(x), bounds=(-eta - 3, 3), method="bounded", options={"xatol": 1e-10}
    )
    return mu(found.x)


def strength(record):
    """Sensitivity over scale: mu, eta or epsilon."""
    return record.sensitivity / record.scale


# Of one release: mu^2, rho and epsilon. Selections are of bounded range (Dong, Durfee and Rogers 2020).
MU_SQUARED = {
    GaussianRelease: lambda mu: mu**2,
    ExponentialMechanismRelease: lambda eta: two_point_mu(eta) ** 2,
    PureRelease: lambda epsilon: two_point_mu(2 * epsilon) ** 2,
}
RHO = {
    GaussianRelease: lambda mu: mu**2 / 2,
    ExponentialMechanismRelease: lambda eta: eta**2 / 8,
    PureRelease: lambda epsilon: epsilon**2 / 2,
}
EPSILON = {
    ExponentialMechanismRelease: lambda eta: eta,
    PureRelease: lambda epsilon: epsilon,
}


def summed(costs, fit):
    return math.fsum(record.count * costs[type(record.event)](strength(record)) for record in fit.records)


def by_gaussians(fit):
    """Exact where all releases are Gaussian (Dong, Roth and Su 2022, Corollary 3.3)."""
    return gaussian_epsilon(math.sqrt(summed(MU_SQUARED, fit)), fit.privacy.delta)


def by_zcdp(fit):
    """Canonne, Kamath and Steinke 2020, Proposition 12."""
    rho, delta = summed(RHO, fit), fit.privacy.delta

    def epsilon(log_excess):
        order = 1.0 + math.exp(log_excess)
        slack = -math.log(delta * order) / (order - 1.0) + math.log1p(-1.0 / order)
        return rho * order + slack

    return minimize_scalar(epsilon, bounds=(-5.0, 20.0), method="bounded", options={"xatol": 1e-10}).fun


def by_sum(fit):
    """Of pure guarantees."""
    assert fit.privacy.delta == 0.0
    return summed(EPSILON, fit)


def by_phases(fit):
    """A record is in one of them."""
    assert fit.privacy.sampling == "permutation"
    assert fit.count == fit.privacy.public["phases"]
    worst = max(strength(record) for record in fit.records)
    return gaussian_epsilon(worst, fit.privacy.delta) if fit.privacy.delta else worst


def by_gaussian_or_sum(fit):
    """One release, of a law that the fit chose."""
    return by_sum(fit) if fit.privacy.delta == 0.0 else by_gaussians(fit)


def by_epochs(fit):
    """A record is in one batch an epoch."""
    assert fit.privacy.sampling == "permutation"
    epochs = math.ceil(fit.count / (fit.privacy.public["n"] // fit.privacy.public["batch_size"]))
    return gaussian_epsilon(math.hypot(math.sqrt(epochs) / fit.multiplier, fit.scales_mu), fit.privacy.delta)


def amplified(epsilon, rate):
    return np.log1p(np.expm1(epsilon) / rate)


def without_replacement_profile(epsilon, rate, mu):
    """Balle, Barthe and Gaboardi 2018, Theorem 9."""
    return rate * gaussian_delta(amplified(epsilon, rate), mu)


def replaced_in_poisson_profile(epsilon, rate, mu):
    """The same, Theorem 2: what both samples have in common lacks the record, which moves a sum by half."""
    inner = amplified(epsilon, rate)
    share = np.exp(epsilon - inner)
    return rate * ((1 - share) * gaussian_delta(inner, mu / 2) + share * gaussian_delta(inner, mu))


def grid_step(rate, mu):
    """A fraction of the standard deviation of a step's loss."""
    return rate * math.sqrt(math.expm1(mu**2)) / 40


def symmetric_pld(profile, rate, mu):
    """Losses of a symmetric profile, by connecting its dots (Doroshenko et al. 2022)."""
    step = reach = grid_step(rate, mu)
    while profile(np.array(reach), rate, mu) > 1e-15 * rate:
        reach *= 1.1
    places = np.arange(math.ceil(reach / step) + 1)
    deltas = profile(places * step, rate, mu)
    slopes = np.append(np.diff(deltas), 0.0)
    above = -slopes[:-1] / -math.expm1(-step) + slopes[1:] / math.expm1(step)  # masses of losses above 0
    below = above * np.exp(-places[1:] * step)
    at_zero = 1.0 - above.sum() - below.sum() - deltas[-1]
    masses = np.concatenate([below[::-1], [at_zero], above])
    return plds.PrivacyLossDistribution(pmfs.DensePLDPmf(step, -places[-1], masses, deltas[-1], True))


def step_pld(fit):
    """Of one noisy sum over a secret batch."""
    mu, scheme = 1.0 / fit.multiplier, (fit.privacy.sampling, fit.privacy.neighbors)
    if scheme == ("poisson", "add_or_remove"):
        return plds.from_gaussian_mechanism(
            1.0 / mu, sampling_prob=fit.rate, value_discretization_interval=grid_step(fit.rate, mu)
        )
    profile = {
        ("without_replacement", "replace_one"): without_replacement_profile,
        ("poisson", "replace_one"): replaced_in_poisson_profile,
    }[scheme]
    return symmetric_pld(profile, fit.rate, mu)


def by_samples(fit):
    """Steps on secret samples, of which all are counted."""
    if fit.rate == 1.0:
        return by_gaussians(fit)
    return after_scales(fit, step_pld(fit), fit.count).get_epsilon_for_delta(fit.privacy.delta)


def after_scales(fit, one, count):
    """So many steps with this loss, after what is learned."""
    steps = one.self_compose(count) if count else None
    if not fit.learned:
        return steps
    step = one._pmf_remove._discretization  # what is composed must be on one grid
    scales = plds.from_gaussian_mechanism(1.0 / fit.scales_mu, value_discretization_interval=step)
    return steps.compose(scales) if count else scales


def by_random_rounds(fit):
    """The mean over the number of sums, which is uniform from the burn-in on where steps are constant."""
    rounds, one = fit.privacy.public["rounds"], step_pld(fit)
    least = int(fit.privacy.public["burn_in"] * rounds)
    assert least <= fit.count < rounds
    counts, weights = np.arange(least, rounds), np.full(rounds - least, 1.0 / (rounds - least))
    if fit.privacy.public.get("step_size") == "0.5/sqrt(t)":
        eta, smoothness = 0.5 / np.sqrt(counts + 1.0), fit.objective.row_norm**2 / 4 + fit.objective.l2
        weights = eta * (2.0 - smoothness * eta)
        weights /= weights.sum()
    elif rounds > 30:  # a smooth function of their number
        nodes, weights = np.polynomial.legendre.leggauss(10)
        counts = np.rint(least + (nodes + 1) / 2 * (rounds - least) - 0.5).astype(int)
        weights = weights / 2
    composed = [after_scales(fit, one, int(count)) for count in counts]

    def delta(epsilon):
        known = zip(weights, composed, strict=True)
        return math.fsum(w * pld.get_delta_for_epsilon(epsilon) for w, pld in known if pld is not None)

    return root(delta, fit.privacy.delta)


def by_counts(fit):
    """Averaged over how often a record is drawn; each time it moves the weights by step size times clip."""
    (record,), public = fit.records, fit.privacy.public
    steps, push = fit.privacy.steps, public["step_size"] * fit.privacy.clip * fit.factor
    share = (steps - 1) / steps if public["output"] == "average" else 1.0
    times = np.arange(1, 200)
    chances = binom.pmf(times, steps, 1.0 / public["n"])
    moved = times * push * share / record.scale
    return root(lambda epsilon: float(chances @ gaussian_delta(epsilon, moved)), fit.privacy.delta)


def by_change_of_variables(fit):
    """Objective perturbation under the logistic loss: the linear term, then noise on the output."""
    (record,), public, privacy = fit.records, fit.privacy.public, fit.privacy
    share, row_norm = public["output_share"], fit.objective.row_norm
    ridge = public["n"] * (public["l2"] + public["extra_l2"])
    assert record.sensitivity == fit.factor * min(row_norm, privacy.clip or math.inf)
    if privacy.clip is not None:
        # The change of variables costs up to log(1 + beta / ridge), however the slope and the curvature
        # go together. A replaced record shifts the linear term by up to the clip either way, or by twice
        # the clip.
        shifts = [1] if fit.factor == 1 else [1, 1, 2]
        mu, delta = privacy.clip / record.scale, privacy.delta * (1 - share)
        shifted = root(lambda each: math.fsum(gaussian_delta(each, k * mu) for k in shifts), delta)
        jacobian = math.log1p(row_norm**2 / 4 / ridge)
        return shifted + jacobian + gaussian_epsilon(1.0 / record.event.output, privacy.delta * share)
    if privacy.delta == 0.0:
        epsilon = strength(record)
        assert ridge >= fit.factor * row_norm**2 / epsilon * (1 - 1e-12)
        return epsilon + record.event.output
    mu, delta = row_norm / record.scale, privacy.delta * (1 - share)  # of one record that comes or goes
    if fit.factor == 1:
        epsilon = alone = gaussian_epsilon(mu, delta)
    else:
        alone = root(lambda each: (1 + math.exp(each)) * gaussian_delta(each, mu), delta)
        epsilon = 2 * alone
    assert alone >= row_norm**2 / ridge - mu**2 / 2  # from here on the profile is that of Gaussians
    return epsilon + gaussian_epsilon(1.0 / record.event.output, privacy.delta * share)


# -- the table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A fit: its algorithm and settings, how it is composed, and whether the claim should be exact."""

    name: str
    compose: object
    exact: bool = False
    settings: dict = field(default_factory=dict)
    relations: tuple = RELATIONS
    problem: dict = field(default_factory=dict)


EXACT, BOUNDED = True, False
ADD, REPLACE = RELATIONS[:1], RELATIONS[1:]
PAPER = {"calibration": "paper"}
HIGH, LOW = {"epsilon": 6.0, "delta": 1e-4}, {"epsilon": 0.2, "delta": 1e-9}
PURE = {"delta": 0.0}
LEARNED, UNLEARNED = {"learn_scales": True}, {"learn_scales": False}
FEW_BATCHES = {"batch_size": 50, "steps": 100}
UNIFORM = {"sampling": "uniform", "counts": "averaged", "passes": 3, "step_size": 0.05, "clip": 0.1}
NO_RIDGE = {"l2": 0.0}
STRIDES = {"stride": 0.5, "entry_bound": 0.5}
SHORTENING = {"rounds": 25, "step_size": "0.5/sqrt(t)", "random_state": 1}

CASES = [
    # All releases Gaussian: exact.
    Case("noisy_gd", by_gaussians, EXACT),
    Case("noisy_gd", by_gaussians, EXACT, {"steps": 7, "clip": 0.1, **HIGH}),
    Case("noisy_gd", by_gaussians, EXACT, {**LOW, **LEARNED}),
    Case("noisy_gd", by_gaussians, BOUNDED, {"steps": 7, "epsilon": 0.5, **PAPER}, ADD),
    Case("majority", by_gaussians, EXACT),
    Case("majority", by_gaussians, EXACT, HIGH),
    Case("noisy_newton", by_gaussians, EXACT),
    Case("noisy_newton", by_gaussians, EXACT, {"covariance": "robust", "effects": True, **HIGH}),
    Case("whitened_gd", by_gaussians, EXACT),
    Case("whitened_gd", by_gaussians, EXACT, HIGH),
    Case("whitened_gd", by_gaussians, EXACT, {"steps": 9, **LOW, **UNLEARNED}),
    Case("sufficient_statistics", by_gaussians, EXACT),
    Case("sufficient_statistics", by_gaussians, EXACT, HIGH),
    Case("sufficient_statistics", by_gaussians, BOUNDED, PAPER, ADD),
    Case("dp_sgd", by_samples, EXACT, {"batch_size": N, "steps": 9}),
    Case("dp_sgd", by_epochs, EXACT, {"sampling": "permutation", "batch_size": 300, "steps": 20}),
    # One release, Gaussian or pure: exact.
    Case("dp_sgd_output", by_gaussian_or_sum, EXACT),
    Case("dp_sgd_output", by_gaussian_or_sum, EXACT, {"mechanism": "gaussian", "passes": 2}),
    Case("dp_sgd_output", by_gaussian_or_sum, EXACT, {"mechanism": "gaussian", "sampling": "uniform"}),
    Case("dp_sgd_output", by_gaussian_or_sum, EXACT, {"mechanism": "gaussian", "step_sizes": "decreasing"}),
    Case("dp_sgd_output", by_phases, EXACT, {"mechanism": "gaussian", "phases": 5}),
    Case("dp_sgd_output", by_phases, EXACT, {"phases": 3, **PURE}),
    Case("output_perturbation_gd", by_gaussian_or_sum, EXACT),
    Case("output_perturbation_gd", by_gaussian_or_sum, EXACT, {"mechanism": "gaussian", **HIGH}),
    Case("output_perturbation_gd", by_gaussian_or_sum, BOUNDED, PAPER, REPLACE),
    # Selections: what is left of the budget at the end, and the conversion, are not counted on.
    Case("dp_agd", by_gaussians, BOUNDED),
    Case("dp_agd", by_zcdp, BOUNDED, {"accountant": "zcdp", "splits": 20, "selection_share": 0.5}),
    Case("dp_agd", by_gaussians, BOUNDED, {"accountant": "gdp", "splits": 20, **HIGH}),
    Case("dp_agd", by_zcdp, BOUNDED, PAPER, ADD),
    Case("dp_agd", by_gaussians, BOUNDED, LEARNED),
    Case("privgene", by_zcdp, BOUNDED),
    Case("privgene", by_gaussians, BOUNDED, {"accountant": "gdp", "generations": 5, **HIGH, **STRIDES}),
    Case("privgene", by_sum, BOUNDED, PURE),
    Case("privgene", by_zcdp, BOUNDED, {"generations": 5, **PAPER}),
    # Secret samples: claims are upper bounds, up to 0.1 % above what is composed here.
    Case("dp_sgd", by_samples, BOUNDED),
    Case("dp_sgd", by_samples, BOUNDED, {**FEW_BATCHES, **HIGH}),
    Case("dp_sgd", by_samples, BOUNDED, {"batch_size": 1, "steps": 500, **LOW}),
    Case("dp_sgd", by_samples, BOUNDED, {**LEARNED, **FEW_BATCHES}),
    Case("dp_sgd", by_samples, BOUNDED, {"sampling": "without_replacement", **FEW_BATCHES}, REPLACE),
    Case("dp_sgd", by_samples, BOUNDED, {"accountant": "rdp", **FEW_BATCHES}),
    Case("dp_sgd", by_samples, BOUNDED, {"accountant": "moments", **FEW_BATCHES}, ADD),
    Case("dp_sgd", by_samples, BOUNDED, {"accountant": "advanced_composition", **FEW_BATCHES}),
    Case("dp_sgd", by_samples, BOUNDED, {"accountant": "moments", **FEW_BATCHES, **PAPER}, ADD),
    Case("dp_sgd", by_samples, BOUNDED, {"accountant": "advanced_composition", **FEW_BATCHES, **PAPER}, ADD),
    Case("dp_lssgd", by_samples, BOUNDED),
    Case("dp_lssgd", by_samples, BOUNDED, FEW_BATCHES),
    Case("dp_lssgd", by_samples, BOUNDED, LEARNED),
    Case("dp_lsadam", by_samples, BOUNDED),
    Case("dp_sgd_gradient", by_samples, BOUNDED),
    Case("dp_sgd_gradient", by_samples, BOUNDED, {**FEW_BATCHES, **HIGH}),
    Case("dp_sgd_gradient", by_samples, BOUNDED, {"radius": 3.0, **PAPER}, REPLACE),
    Case("rrpsgd", by_random_rounds, BOUNDED, problem={"n": 400}),
    Case("rrpsgd", by_random_rounds, BOUNDED, {"batch_size": 50, **SHORTENING}),
    Case("rrpsgd", by_random_rounds, BOUNDED, {"burn_in": 0.0, "rounds": 25, "batch_size": 50}),
    Case("rrpsgd", by_random_rounds, BOUNDED, {"rounds": 25, "batch_size": 50, **HIGH}),
    Case("rrpsgd", by_random_rounds, BOUNDED, {"burn_in": 0.0}, problem={"n": 400}),
    # Other theorems.
    Case("dp_sgd_output", by_counts, BOUNDED, UNIFORM, problem=NO_RIDGE),
    Case("dp_sgd_output", by_counts, BOUNDED, {"output": "last", **UNIFORM, **HIGH}, problem=NO_RIDGE),
    Case("objective_perturbation", by_change_of_variables, BOUNDED),
    Case("objective_perturbation", by_change_of_variables, BOUNDED, LOW),
    Case("objective_perturbation", by_change_of_variables, BOUNDED, {"clip": math.inf}),
    Case("objective_perturbation", by_change_of_variables, BOUNDED, {"clip": math.inf, **LOW}),
    Case("objective_perturbation", by_change_of_variables, BOUNDED, PURE),
]
# Of each way to compose, a fit whose claim should be nearly used up: published noise may be far too much.
ONE_OF_EACH = {case.compose: case for case in CASES if "calibration" not in case.settings}
WITH_RELATIONS = [
    pytest.param(case, relation, id=f"{case.name}-{place}-{relation}")
    for place, case in enumerate(CASES)
    for relation in case.relations
]


def expected_sensitivity(name, fit, place, record):
    """By what one record moves the sum of that release; None where only the release itself can tell."""
    privacy, row_norm, factor = fit.privacy, fit.objective.row_norm, fit.factor
    longest = min(privacy.clip or math.inf, row_norm)  # the slope of the logistic loss is at most 1
    if name == "dp_agd":
        return factor * (privacy.public["loss_clip"] if record.selection else longest)
    if name == "privgene" and "stride" in privacy.public:
        stride = privacy.public["stride"] * privacy.public["decay"] ** place
        return factor * 2.0 * stride * privacy.public["entry_bound"]
    if name in ("noisy_gd", "dp_sgd", "dp_lssgd", "dp_lsadam", "dp_sgd_gradient", "rrpsgd"):
        return factor * longest
    if name == "majority":
        return factor
    return None


def check_statement(name, fit):
    """The records say what the statement says, and what was drawn."""
    vectors = [record for record in fit.records if not record.selection]
    if vectors:
        stated = (fit.privacy.sensitivity, fit.privacy.noise_scale)
        assert stated == (vectors[-1].sensitivity, vectors[-1].scale)
    for place, record in enumerate(fit.steps):
        expected = expected_sensitivity(name, fit, place, record)
        assert expected is None or record.sensitivity == pytest.approx(expected, rel=1e-5)
    if fit.privacy.steps is not None and name not in ("dp_sgd_output", "output_perturbation_gd"):
        assert fit.count + fit.learned == fit.privacy.steps
    written = np.array([record.scale / record.grid for record in fit.records])
    drawn = np.array(fit.drawn)
    if name == "objective_perturbation":
        drawn = drawn[:1]  # then comes the noise on the output, whose scale the event tells
    same = np.isclose(drawn[:, None], written, rtol=1e-12, atol=0.0)
    assert same.any(axis=0).all()
    assert same.any(axis=1).all()


def made(fitted, case, relation):
    """The fit of a case."""
    objective = problem_for(case.name, **{"n": N, **case.problem})
    settings = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, **case.settings}
    fit = fitted(case.name, objective, neighbors=relation, **settings)
    assert (fit.privacy.epsilon, fit.privacy.neighbors) == (settings["epsilon"], relation)
    assert fit.privacy.delta in (0.0, settings["delta"])
    return fit


def share_of_claim(case, fit):
    return case.compose(fit) / fit.privacy.epsilon


@OUTSIDE_PROOFS
@pytest.mark.parametrize(("case", "relation"), WITH_RELATIONS)
def test_what_was_released_is_what_is_claimed(fitted, case, relation):
    fit = made(fitted, case, relation)
    check_statement(case.name, fit)
    assert (0.98 if case.exact else 0.0) <= share_of_claim(case, fit) <= 1.0005


def test_every_algorithm_is_in_the_table():
    assert {case.name for case in CASES} == set(PRIVATE)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=compose.__name__) for compose, case in ONE_OF_EACH.items()],
)
def test_half_of_the_noise_is_found(fitted, case):
    fit = made(fitted, case, case.relations[0])
    records = [replace(record, scale=record.scale / 2) for record in fit.records]
    assert share_of_claim(case, replace(fit, records=records)) > 1.0005


def test_compositions_agree_where_both_know_the_answer():
    """Without sampling losses are Gaussian, whichever way they are added up."""
    expected = gaussian_epsilon(0.1 * math.sqrt(50), 1e-6)
    connected = symmetric_pld(without_replacement_profile, 1.0, 0.1)
    theirs = plds.from_gaussian_mechanism(10.0, value_discretization_interval=1e-3)
    for one in (connected, theirs):
        assert one.self_compose(50).get_epsilon_for_delta(1e-6) == pytest.approx(expected, rel=3e-4)
