"""How each algorithm is audited, and faults that an audit must find."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Sampling
from dperm.algorithms import noisy_descent
from dperm.audit.neighbours import LinearData
from dperm.losses import Huber, Loss, SquaredError
from dperm.losses.weighted import Weighted
from dperm.mechanisms import batches
from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.sampling import permutation
from dperm.mechanisms.selection import exponential_mechanism
from dperm.objective.bounded_training import Minimisation
from dperm.objective.stochastic_descent import CyclicBatches
from dperm.private_values.bounded import Bounded
from reference.replaced_noise import scaled_noise


def halved_noise():
    """Half of the standard deviation that was charged."""
    return scaled_noise(1 / 2)


def quarter_of_the_noise():
    """A quarter of the standard deviation that was charged."""
    return scaled_noise(1 / 4)


def eighth_of_the_noise():
    """An eighth of the standard deviation that was charged."""
    return scaled_noise(1 / 8)


def hasty_selection():
    """Selections are made at four times the rate that was charged."""
    return replace_noise(
        exponential_mechanism=lambda bits, scores, rate: exponential_mechanism(bits, scores, 4 * rate)
    )


def fault_in(owner, name):
    """Make a context manager of a function that stands in for a method and is given the honest one first."""

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


def restated(bounded, add_or_remove, times=1):
    """The sum, or a multiple of it, with another sensitivity."""
    return Bounded(
        times * bounded._integers, grid=bounded.grid, add_or_remove=add_or_remove, scores=bounded.scores
    )


def understated(bounded, factor):
    """The sum with so many times less sensitivity than it has."""
    return restated(bounded, bounded.add_or_remove / factor)


@fault_in(Minimisation, "train_perturbed")
def lost_linear_term(honest, self, objective, linear, error):
    """The secret linear term is drawn but never reaches the objective."""
    return honest(self, objective, 0.0 * linear, error)


@fault_in(Objective, "clipped_gradient_sum")
def skipped_clip(honest, self, w, clip, **kwargs):
    """Gradients are clipped at 100 times the bound that the sum carries."""
    return restated(honest(self, w, 100 * clip, **kwargs), honest(self, w, clip, **kwargs).add_or_remove)


@fault_in(Objective, "mapped_gradient_sum")
def skipped_mapped_clip(honest, self, w, clip, linear_map, **kwargs):
    """Gradients seen through a matrix are clipped at 100 times the bound that the sum carries."""
    bound = honest(self, w, clip, linear_map).add_or_remove
    return restated(honest(self, w, 100 * clip, linear_map, **kwargs), bound)


@fault_in(Objective, "_descent")
def skipped_clip_in_steps(honest, self, plan, clip, grid):
    """Compiled steps clip at 100 times the bound that they state."""
    return honest(self, plan, 100 * clip, grid)


@fault_in(Objective, "gram_sum")
def understated_gram(honest, *args, **kwargs):
    """The sum of outer products states a quarter of what a record contributes to it."""
    return understated(honest(*args, **kwargs), 4)


@fault_in(Objective, "regression_sums")
def understated_sums(honest, *args):
    """Each of the sums of a regression states a quarter of what a record contributes to it."""
    return tuple(understated(each, 4) for each in honest(*args))


@fault_in(Objective, "newton_direction")
def understated_direction(honest, *args, **kwargs):
    """A Newton direction states a tenth of what a record changes in it."""
    return understated(honest(*args, **kwargs), 10)


@fault_in(Objective, "image_gram_sum")
def understated_images(honest, *args):
    """The sum of outer products of weighted images states a quarter of what a record contributes to it."""
    return understated(honest(*args), 4)


@fault_in(Objective, "coordinate_loss_sums")
def understated_scores(honest, *args):
    """A record moves the scores of the offspring four times as far as they state."""
    return understated(honest(*args), 4)


@fault_in(Objective, "label_sum")
def heavy_label(honest, self):
    """A record counts three times in the sum of the labels, which still states 1."""
    stated = honest(self)
    return restated(stated, stated.add_or_remove, times=3)


@fault_in(Bounded, "rounding")
def understated_result(honest, values, *, add_or_remove, replace_one):
    """Secretly trained weights state half of the distance that one record moves them."""
    return honest(values, add_or_remove=add_or_remove / 2, replace_one=replace_one / 2)


@fault_in(Weighted, "lipschitz")
def forgotten_weights(honest, self, *args):
    """Gradients of records are as long as they are without weights."""
    return self.loss.lipschitz(*args)


@contextmanager
def dealt_batches():
    """The records are dealt into batches once, which the steps go through in order; accounted as samples."""

    def deal(bits, relation, n, batch_size):
        return CyclicBatches(np.asarray(permutation(bits, n), dtype=np.int64), batch_size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_descent, "fresh_batches", deal)
        yield


@contextmanager
def shuffled_sampling():
    """Every epoch is a permutation, accounted for as Poisson samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(batches._SCHEMES, Sampling.POISSON, batches.shuffled_batches)
        yield


@dataclass(frozen=True, eq=False)
class WeightedData(LinearData):
    """The last of all records, which may be missing, weighs as much as any may; the others a half."""

    weight_bound: float = 1.0

    @cached_property
    def objective(self):
        own = {name: value for name, value in self.__getstate__().items() if name not in ("loss", "X", "y")}
        others = np.arange(len(self.y)) < self.n_public - 1
        weights = np.where(others, 0.5, self.weight_bound)
        return Objective(self.loss, self.X, self.y, weights=weights, n_threads=1, **own)


def weighted(pair, bound):
    """Neighbours with weights of records, up to a bound that the one in which they differ reaches."""
    first, second = (WeightedData(**each.__getstate__(), weight_bound=bound) for each in pair)
    return replace(pair, first=first, second=second)


@dataclass(frozen=True)
class Configuration:
    """How an algorithm is audited.

    ``epsilon`` is the claim: large enough that few trainings tell a fault. ``share`` is how much of the
    claimed mu (with ``method="clopper_pearson"`` of epsilon) the transcript is sure to show; the rest pays
    for accesses that leak less here than they may; None where nothing is asked of it.
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
    secret: bool = False  # only the weights are published: they are what is observed
    delta: float = 1e-3
    method: str = "gdp"
    replay: dict = field(default_factory=dict)  # settings in which every run shows the whole sensitivity
    loss: str | Loss = "logistic"
    weight_bound: float | None = None


# Claims of (epsilon, delta) that rest on sampling. A large delta lets few trainings tell a fault.
# Short steps: the weights stay where the record fills its clip.
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
    "dp_sgd": Configuration(SAMPLED, (halved_noise, skipped_clip), **SAMPLED_CLAIM),
    "dp_lssgd": Configuration(SAMPLED, (halved_noise, skipped_clip), **SAMPLED_CLAIM),
    "dp_lsadam": Configuration(SAMPLED, (halved_noise, skipped_clip), **SAMPLED_CLAIM),
    "dp_sgd_output": Configuration(
        {"passes": 1, "step_size": 0.5, "output": "last", "clip": 0.01, "mechanism": "gaussian"},
        (halved_noise, skipped_clip_in_steps),
    ),
    # Short steps: far from 0 the record's gradient could be below the clip. Large batches: the profile of
    # small ones is symmetrised and promises less than is there.
    "dp_sgd_gradient": Configuration(
        {"batch_size": 25, "steps": 20, "clip": 0.01, "step_size": 0.1},
        (halved_noise, skipped_clip_in_steps),
        **(SAMPLED_CLAIM | {"epsilon": 0.5, "replay": {}}),
    ),
    # The number of rounds is random, too, and few rounds show little.
    "rrpsgd": Configuration(
        {"batch_size": 25, "rounds": 20, "clip": 0.01, "step_size": 0.1},
        (halved_noise, skipped_clip_in_steps),
        **(SAMPLED_CLAIM | {"epsilon": 0.5, "trainings": 1200, "share": 0.5, "replay": {}}),
    ),
    "nonprivate": Configuration({}, ()),
    "objective_perturbation": Configuration(
        # so much ridge that the claim is one of Gaussian differential privacy; the record then pulls with
        # half of the slope that it may have, and faults must make up for that
        {},
        (eighth_of_the_noise, lost_linear_term),
        share=0.3,
        l2=20.0,
        secret=True,
    ),
    "output_perturbation_gd": Configuration(
        # a single step: later ones move the other way
        {"steps": 1, "step_size": 2.0, "mechanism": "gaussian"},
        (halved_noise, understated_result),
        share=0.85,
        secret=True,
    ),
    "output_perturbation_minimum": Configuration(
        # a strong ridge term keeps the minimiser where gradients are long
        {"mechanism": "gaussian"},
        (halved_noise, understated_result),
        share=0.7,
        l2=20.0,
        secret=True,
    ),
    "privgene": Configuration(
        # The record moves two of seven candidates by all that it may, as long as the weights are small: half
        # of the mu that was charged, so that faults are by a factor of four.
        {"generations": 6, "stride": 0.1, "decay": 1.0, "entry_bound": 0.25, "accountant": "gdp"},
        (hasty_selection, understated_scores),
        share=0.4,
        kind="silent",
    ),
    "dp_newton": Configuration(
        {"steps": 3, "clip": 0.01, "gradient_share": 0.7},
        (halved_noise, skipped_clip, understated_direction),
        share=0.75,  # a record moves a direction by all it can in the worst case only,
        kind="silent",  # which is a gradient along that record
    ),
    "noisy_newton": Configuration(
        # rows alike, or the record would be so long in whitened coordinates that it weighs little; where only
        # its label changes, second moments show nothing of it
        {"steps": 3, "leverage": 0.5},
        (halved_noise, understated_images),
        kind="opposite",
        share=0.3,
    ),
    "sufficient_statistics": Configuration(
        {"target_weight": 1.0}, (halved_noise, understated_gram), loss=SquaredError(1.0)
    ),
    "preconditioned_gd": Configuration(
        {"steps": 3, "clip": 0.1, "moments": "gram", "share": 0.5},
        (halved_noise, skipped_mapped_clip, understated_gram),
    ),
}

# One epoch of two batches. A Poisson sampler leaves a record out of both with probability 1/4, and so
# (0.2, 0.73)-DP takes next to no noise; in a shuffled epoch the record is there, and shows: with 2 % of 540
# trainings going wrong on each data set, epsilon is at least 0.5.
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
    # One decision shows only part of rho, so that it takes a quarter of the noise.
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
    # By its weight alone the record fills the clip.
    "weights of records": (
        "noisy_gd",
        "add_or_remove",
        Configuration({"steps": 2, "clip": 0.6}, (halved_noise, skipped_clip), weight_bound=3.0),
    ),
    # There is no clip: what is stated follows from the public bound on weights. At 0 the slope is half of
    # what it may be, and faults must make up for that.
    "a bound on weights": (
        "output_perturbation_gd",
        "replace_one",
        replace(
            CONFIGURATIONS["output_perturbation_gd"],
            settings={"steps": 1, "step_size": 0.5, "mechanism": "gaussian"},
            faults=(quarter_of_the_noise, forgotten_weights),
            share=0.5,
            weight_bound=6.0,
        ),
    ),
    # The slope of this loss is reached by every record: the minimiser moves by all that Lemma 7 allows.
    "published noise of a minimum": (
        "output_perturbation_minimum",
        "replace_one",
        replace(
            CONFIGURATIONS["output_perturbation_minimum"],
            settings={"calibration": "paper"},
            faults=(eighth_of_the_noise,),
            loss=Huber(0.5),
            epsilon=2.0,
            delta=0.0,
            method="clopper_pearson",
            trainings=1500,
            share=0.3,
            d=2,
        ),
    ),
}
# Paper modes that are more than other constants: releases of their own. Published noise is more than its
# claim needs, so that the claim that is audited is the one of the noise itself.
PUBLISHED = {
    "dp_newton": replace(
        CONFIGURATIONS["dp_newton"],
        settings={"steps": 2, "clip": 0.01, "calibration": "paper"},
        faults=(halved_noise, understated_direction),
        trainings=1000,
    ),
    "sufficient_statistics": Configuration(
        # the record is alone on the axis of the smallest eigenvalue
        {"calibration": "paper"},
        (halved_noise, understated_sums),
        d=2,
        loss=SquaredError(1.0),
        trainings=1200,
    ),
}

# The noise of small batches at usual claims, told to an observer who knows the batches: so many sums with the
# record, of the expected 5 or more.
GIVEN_BATCHES = {
    "dp_sgd_gradient": (3, {"batch_size": 1, "steps": 100, "clip": 0.01, "step_size": 0.1}),
    "rrpsgd": (4, {"batch_size": 1, "rounds": 200, "clip": 0.01, "step_size": 0.1}),
}
PRIVATE = sorted(name for name, entry in CONFIGURATIONS.items() if entry.faults)
