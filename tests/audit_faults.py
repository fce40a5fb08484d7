"""How each algorithm is audited, and faults that an audit must find."""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dperm import Objective
from dperm.accounting import Sampling
from dperm.algorithms import dp_sgd_gradient, rrpsgd
from dperm.bounded import Bounded
from dperm.mechanisms import batches, release
from dperm.mechanisms.sampling import permutation
from dperm.stochastic_descent import CyclicBatches


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
def skipped_clip_in_steps():
    """Compiled steps clip at 100 times the bound that they state."""
    honest = Objective._descent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Objective, "_descent", lambda self, plan, clip_in, grid: honest(self, plan, 100 * clip_in, grid)
        )
        yield


@contextmanager
def dealt_batches():
    """The records are dealt into batches once, which the steps go through in order; accounted as samples."""

    def deal(bits, relation, n, batch_size):
        return CyclicBatches(np.asarray(permutation(bits, n), dtype=np.int64), batch_size)

    with pytest.MonkeyPatch.context() as patch:
        for module in (rrpsgd, dp_sgd_gradient):
            patch.setattr(sys.modules[module.__wrapped__.__module__], "draw_batches", deal)
        yield


@contextmanager
def shuffled_sampling():
    """Every epoch is a permutation, accounted for as Poisson samples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(batches._SCHEMES, Sampling.POISSON, batches.shuffled_batches)
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


@dataclass(frozen=True)
class Configuration:
    """How an algorithm is audited.

    ``epsilon`` is the claim: large enough that few trainings tell a fault. ``share`` is how much of the
    claimed mu (with ``method="clopper_pearson"`` of epsilon) the transcript is sure to show; the rest pays
    for accesses that leak less here than they may.
    """

    settings: dict
    faults: tuple[Callable, ...]
    epsilon: float = 4.0
    trainings: int = 800
    share: float = 0.9
    fit_intercept: bool = False
    delta: float = 1e-3
    method: str = "gdp"
    replay: dict = field(default_factory=dict)  # settings in which every run shows the whole sensitivity


# Claims of (epsilon, delta) that rest on sampling. A large delta lets few trainings tell a fault.
SAMPLED = {"batch_size": 5, "steps": 20, "clip": 0.01}
SAMPLED_CLAIM = {
    "epsilon": 1.0,
    "delta": 0.3,
    "method": "clopper_pearson",
    "trainings": 800,
    "share": 0.3,
    "replay": {"batch_size": 25},  # 20 steps miss the record with probability 1e-6
}
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
    "dp_sgd": Configuration(SAMPLED, (halved_noise, skipped_clip), **SAMPLED_CLAIM),
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
)
# The same for a run in one piece.
DEALT = replace(SHUFFLED, settings=SHUFFLED.settings | {"step_size": 0.1}, faults=(dealt_batches,))
PRIVATE = sorted(name for name, entry in CONFIGURATIONS.items() if entry.faults)
