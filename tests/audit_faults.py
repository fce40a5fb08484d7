"""How each algorithm is audited, and the planted faults that an audit must detect."""

import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting.subsampling import Sampling
from dperm.algorithms import noisy_descent
from dperm.audit.neighbours import LinearData
from dperm.losses import Loss, SquaredError
from dperm.losses.weighted import Weighted
from dperm.mechanisms import batches
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.sampling import permutation
from dperm.mechanisms.selection import exponential_mechanism
from dperm.objective import descents
from dperm.objective.bounded_training import Minimisation
from dperm.objective.descents import CyclicBatches
from dperm.objective.hooks import watch_sums
from dperm.private_values.bounded import Bounded
from reference.replaced_noise import scaled_noise


def halved_noise():
    """Noise has half the standard deviation that was charged."""
    return scaled_noise(1 / 2)


def quarter_of_the_noise():
    """Noise has a quarter of the standard deviation that was charged."""
    return scaled_noise(1 / 4)


def eighth_of_the_noise():
    """Noise has an eighth of the standard deviation that was charged."""
    return scaled_noise(1 / 8)


def hasty_selection():
    """The exponential mechanism runs at four times the rate that was charged."""
    return replace_noise(
        exponential_mechanism=lambda bits, scores, rate: exponential_mechanism(bits, scores, 4 * rate)
    )


def fault_in(owner, name):
    """Make a context manager that replaces a method; the replacement gets the original as first argument."""

    def decorate(faulty):
        @contextmanager
        @wraps(faulty)
        def planted():
            honest = getattr(owner, name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, lambda *args, **kwargs: faulty(honest, *args, **kwargs))
                yield

        return planted

    return decorate


def fault_in_sum(name):
    """The same for a private sum of an objective, by the name of its function."""

    def decorate(faulty):
        def watcher(function, *args, **kwargs):
            replaced = function.__name__ == name
            return faulty(function, *args, **kwargs) if replaced else function(*args, **kwargs)

        return wraps(faulty)(lambda: watch_sums(watcher))

    return decorate


def restated(bounded, add_or_remove, times=1):
    """The sum, or a multiple of it, with a different stated sensitivity."""
    return Bounded(
        times * bounded._integers, grid=bounded.grid, add_or_remove=add_or_remove, scores=bounded.scores
    )


def skipped_clipping(method):
    """Fault: a gradient sum is clipped at 100 times the sensitivity that it states."""

    def skipped_clip(honest, objective, w, clip, *args, **kwargs):
        bound = honest(objective, w, clip, *args, **kwargs).add_or_remove
        return restated(honest(objective, w, 100 * clip, *args, **kwargs), bound)

    return fault_in_sum(method)(skipped_clip)


def understated_sensitivity(method, factor):
    """Fault: the private sums that a method of the objective returns state 1/factor of their sensitivity."""

    def understated(honest, *args, **kwargs):
        sums = honest(*args, **kwargs)
        if isinstance(sums, tuple):
            return tuple(restated(each, each.add_or_remove / factor) for each in sums)
        return restated(sums, sums.add_or_remove / factor)

    return fault_in_sum(method)(understated)


def heavy_record(method):
    """Fault: a record counts three times in a sum of targets, whose stated sensitivity is that of once."""

    def heavy(honest, self, *args):
        stated = honest(self, *args)
        return restated(stated, stated.add_or_remove, times=3)

    return fault_in_sum(method)(heavy)


skipped_clip = skipped_clipping("clipped_gradient_sum")
skipped_mapped_clip = skipped_clipping("mapped_gradient_sum")
understated_gram = understated_sensitivity("gram_sum", 32)  # of a small part of the budget
understated_sums = understated_sensitivity("regression_sums", 4)
understated_images = understated_sensitivity("weighted_gradient_sum", 4)
understated_scores = understated_sensitivity("coordinate_loss_sums", 4)
heavy_label = heavy_record("label_sum")


@fault_in(Minimisation, "train_perturbed")
def lost_linear_term(honest, self, objective, linear, error):
    """The secret linear term is drawn but not added to the objective."""
    return honest(self, objective, 0.0 * linear, error)


@fault_in(descents, "_descent")
def skipped_clip_in_steps(honest, objective, plan, clip, grid):
    """Compiled SGD steps clip at 100 times the stated bound."""
    return honest(objective, plan, 100 * clip, grid)


@fault_in(Objective, "gradient")
def skipped_clip_in_training(honest, self, w, clip=math.inf):
    """Gradients of secret training are not clipped."""
    return honest(self, w)


@fault_in(Bounded, "rounding")
def understated_result(honest, values, *, add_or_remove, replace_one):
    """Trained weights state half of the distance by which one record moves them."""
    return honest(values, add_or_remove=add_or_remove / 2, replace_one=replace_one / 2)


@fault_in(Weighted, "lipschitz")
def forgotten_weights(honest, self, *args):
    """The Lipschitz constant ignores the record weights."""
    return self.loss.lipschitz(*args)


@contextmanager
def dealt_batches():
    """One fixed partition into batches, traversed in order, but accounted for as independent samples."""

    def deal(bits, relation, n, batch_size):
        return CyclicBatches(np.asarray(permutation(bits, n), dtype=np.int64), batch_size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_descent, "fresh_batches", deal)
        yield


@contextmanager
def shuffled_sampling():
    """Every epoch is a random permutation, but accounted for as Poisson samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(batches._SCHEMES, Sampling.POISSON, batches.shuffled_batches)
        yield


@dataclass(frozen=True, eq=False)
class WeightedData(LinearData):
    """The last record, which a neighbour may lack, has the largest weight allowed; all others weigh 1/2."""

    weight_bound: float = 1.0

    @cached_property
    def objective(self):
        own = {name: value for name, value in self.__getstate__().items() if name not in ("loss", "X", "y")}
        others = np.arange(len(self.y)) < self.n_public - 1
        weights = np.where(others, 0.5, self.weight_bound)
        return Objective(self.loss, self.X, self.y, weights=weights, n_threads=1, **own)


def weighted(pair, bound):
    """Neighbours with record weights; the record in which they differ has the largest weight allowed."""
    first, second = (WeightedData(**each.__getstate__(), weight_bound=bound) for each in pair)
    return replace(pair, first=first, second=second)


@dataclass(frozen=True)
class Configuration:
    """How an algorithm is audited.

    ``epsilon`` is the claim, large enough that few trainings reveal a fault. ``share`` is the fraction of the
    claimed mu (of epsilon with ``method="clopper_pearson"``) that the audit must detect; the rest is spent on
    releases that leak less on this pair than in the worst case. None: no lower limit.
    """

    settings: dict
    faults: tuple[Callable, ...]
    epsilon: float = 4.0
    trainings: int = 800
    share: float | None = 0.9
    fit_intercept: bool = False
    l2: float = 0.0
    kind: str = "orthogonal"
    d: int = 3
    secret: bool = False  # only the final weights are published, so the audit observes them alone
    delta: float = 1e-3
    method: str = "gdp"
    replay: dict = field(default_factory=dict)  # settings with which every run attains the sensitivity
    loss: str | Loss = "logistic"
    weight_bound: float | None = None


# (epsilon, delta) claims that rest on subsampling. With a large delta, few trainings reveal a fault.
# The step size is small so that the record's gradient stays at least as long as the clipping norm.
SAMPLED = {"batch_size": 10, "steps": 10, "clip": 0.01, "step_size": 0.01}
SAMPLED_CLAIM = {
    "epsilon": 1.0,
    "delta": 0.3,
    "method": "clopper_pearson",
    "trainings": 800,
    "share": 0.3,
    "replay": {"batch_size": 40},  # 10 steps miss the record with probability 1e-7
}
CONFIGURATIONS = {
    "noisy_gd": Configuration({"steps": 4, "clip": 0.01}, (halved_noise, skipped_clip)),
    "dp_agd": Configuration(
        # few line searches with few candidates: they take time and leak little
        {"splits": 6, "clip": 0.01, "n_candidates": 4, "accountant": "gdp"},
        (halved_noise, skipped_clip),
        share=0.7,
    ),
    "majority": Configuration(
        # with less noise, rounding to whole labels would dominate
        {},
        (halved_noise, heavy_label),
        epsilon=2.0,
        trainings=6000,
        fit_intercept=True,
    ),
    **dict.fromkeys(
        ("dp_sgd", "dp_lssgd", "dp_lsadam"),
        Configuration(SAMPLED, (halved_noise, skipped_clip), **SAMPLED_CLAIM),
    ),
    "dp_sgd_output": Configuration(
        {"passes": 1, "step_size": 0.5, "output": "last", "clip": 0.01, "mechanism": "gaussian"},
        (halved_noise, skipped_clip_in_steps),
    ),
    # A small step size: far from 0 the record's gradient could be shorter than the clipping norm. Large
    # batches: the privacy profile of small ones is symmetrised, so the claim is looser.
    "dp_sgd_gradient": Configuration(
        {"batch_size": 25, "steps": 20, "clip": 0.01, "step_size": 0.1},
        (halved_noise, skipped_clip_in_steps),
        **(SAMPLED_CLAIM | {"epsilon": 0.5, "replay": {}, "share": None}),
    ),
    # The number of rounds is random: at least half of them.
    "rrpsgd": Configuration(
        {"batch_size": 25, "rounds": 20, "clip": 0.01, "step_size": 0.1},
        (halved_noise, skipped_clip_in_steps),
        **(SAMPLED_CLAIM | {"epsilon": 0.5, "trainings": 1200, "share": None, "replay": {}}),
    ),
    "nonprivate": Configuration({}, ()),
    "objective_perturbation": Configuration(
        # enough ridge for a Gaussian-DP claim; the record's gradient is then half of the Lipschitz bound,
        # so the faults are larger
        {},
        (eighth_of_the_noise, lost_linear_term),
        share=0.3,
        l2=20.0,
        secret=True,
    ),
    "output_perturbation_gd": Configuration(
        # a single step: later steps move the weights back
        {"steps": 1, "step_size": 2.0, "mechanism": "gaussian"},
        (halved_noise, understated_result, skipped_clip_in_training),
        share=0.85,
        secret=True,
    ),
    "privgene": Configuration(
        # While the weights are small, the record moves two of the seven scores by the full sensitivity: half
        # of the charged mu, hence faults by a factor of four.
        {"generations": 6, "stride": 0.1, "decay": 1.0, "entry_bound": 0.25, "accountant": "gdp"},
        (hasty_selection, understated_scores),
        share=0.4,
        kind="silent",
    ),
    "noisy_newton": Configuration(
        # equal rows: an unusual one is long after whitening and is down-weighted; second moments do not
        # depend on the label
        {"steps": 3, "leverage": 0.5},
        (quarter_of_the_noise, understated_images),  # this pair shows a third of the claim
        trainings=1000,
        kind="opposite",
        share=0.3,
    ),
    "sufficient_statistics": Configuration(
        # only this record lies along the eigenvector of the smallest eigenvalue
        {},
        (halved_noise, understated_sums),
        d=2,
        loss=SquaredError(1.0),
        trainings=1200,
        share=0.8,  # an exchanged label leaves the products of the row with itself alone
    ),
    "whitened_gd": Configuration(
        {"steps": 3, "clip": 0.1},
        (halved_noise, skipped_mapped_clip, understated_gram),
    ),
}

# One epoch of two batches. A Poisson sampler leaves a record out of both with probability 1/4, so that
# (0.2, 0.73)-DP needs almost no noise; a shuffled epoch always contains the record: with error rates of 2 %
# in 540 trainings on each data set, epsilon is at least 0.5.
SHUFFLED = Configuration(
    {"batch_size": 25, "steps": 2, "clip": 0.01},
    (shuffled_sampling,),
    epsilon=0.2,
    delta=0.73,
    method="clopper_pearson",
    trainings=1200,
    share=None,
)
# Name: algorithm, relation, configuration.
OTHER_CLAIMS = {
    "shuffled epochs": ("dp_sgd", "add_or_remove", SHUFFLED),
    "shuffled epochs in one piece": (
        "dp_sgd_gradient",
        "add_or_remove",
        replace(SHUFFLED, settings=SHUFFLED.settings | {"step_size": 0.1}, faults=(dealt_batches,)),
    ),
    # A single test reveals only part of rho, so the fault is a quarter of the noise.
    "zCDP": (
        "dp_agd",
        "add_or_remove",
        replace(
            CONFIGURATIONS["dp_agd"],
            settings=CONFIGURATIONS["dp_agd"].settings | {"accountant": "zcdp"},
            faults=(quarter_of_the_noise,),
            method="zcdp",
            trainings=600,
            share=0.02,
        ),
    ),
    # The record's gradient reaches the clipping norm only because of its weight.
    "weights of records": (
        "noisy_gd",
        "add_or_remove",
        Configuration({"steps": 2, "clip": 0.6}, (halved_noise, skipped_clip), weight_bound=3.0),
    ),
    # No clipping: the sensitivity follows from the public bound on weights. At 0 the slope is half of the
    # Lipschitz bound, so the faults are larger.
    "a bound on weights": (
        "output_perturbation_gd",
        "replace_one",
        replace(
            CONFIGURATIONS["output_perturbation_gd"],
            settings={"steps": 1, "step_size": 0.5, "mechanism": "gaussian", "clip": math.inf},
            faults=(quarter_of_the_noise, forgotten_weights),
            share=0.5,
            weight_bound=6.0,
        ),
    ),
}
# Paper modes that make releases of their own, not only with other constants. The published noise is larger
# than its claim needs, so the audited claim is the guarantee that follows from the noise itself.
PUBLISHED = {
    "sufficient_statistics": Configuration(
        # only this record lies along the eigenvector of the smallest eigenvalue
        {"calibration": "paper"},
        (halved_noise, understated_sums),
        d=2,
        loss=SquaredError(1.0),
        trainings=1200,
    ),
}

# Small batches at realistic claims, against an observer who knows the batches. Algorithm: how many sums with
# the record the observer uses (5 or more are expected), and settings.
GIVEN_BATCHES = {
    "dp_sgd_gradient": (3, {"batch_size": 1, "steps": 100, "clip": 0.01, "step_size": 0.1}),
    "rrpsgd": (5, {"batch_size": 1, "rounds": 200, "clip": 0.01, "step_size": 0.1}),
}
PRIVATE = sorted(name for name, entry in CONFIGURATIONS.items() if entry.faults)
