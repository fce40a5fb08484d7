"""How each algorithm is audited, and faults that an audit must find."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from dperm import Objective
from dperm.bounded import Bounded
from dperm.losses import Loss, SquaredError
from dperm.mechanisms import release


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
def skipped_mapped_clip():
    """Gradients seen through a matrix are clipped at 100 times the bound that the sum carries."""
    honest = Objective.mapped_gradient_sum

    def unclipped(self, w, clip, linear_map):
        stated, loose = honest(self, w, clip, linear_map), honest(self, w, 100 * clip, linear_map)
        return Bounded(loose._integers, grid=loose.grid, contribution=stated.contribution)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "mapped_gradient_sum", unclipped)
        yield


@contextmanager
def understated_gram():
    """The sum of outer products states a quarter of what a record contributes to it."""
    honest = Objective.gram_sum

    def understated(self, **kwargs):
        gram = honest(self, **kwargs)
        return Bounded(gram._integers, grid=gram.grid, contribution=gram.contribution / 4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "gram_sum", understated)
        yield


@contextmanager
def understated_direction():
    """A Newton direction states a tenth of what a record changes in it."""
    honest = Objective.newton_direction

    def understated(self, *args, **kwargs):
        secret = honest(self, *args, **kwargs)
        return Bounded(secret._integers, grid=secret.grid, contribution=secret.contribution / 10)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "newton_direction", understated)
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
    claimed mu the transcript is sure to show; the rest pays for accesses that leak less here than they may.
    """

    settings: dict
    faults: tuple[Callable, ...]
    epsilon: float = 4.0
    trainings: int = 800
    share: float = 0.9
    fit_intercept: bool = False
    loss: str | Loss = "logistic"
    kind: str = "orthogonal"


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
    "dp_newton": Configuration(
        {"steps": 8, "clip": 0.01, "gradient_share": 0.7},
        (halved_noise, skipped_clip, understated_direction),
        share=0.75,  # a record moves a direction by all it can in the worst case only,
        kind="silent",  # which is a gradient along that record
    ),
    "sufficient_statistics": Configuration(
        {"target_weight": 1.0}, (halved_noise, understated_gram), loss=SquaredError(1.0)
    ),
    "preconditioned_gd": Configuration(
        {"steps": 8, "clip": 0.1, "moments": "gram", "share": 0.5},
        (halved_noise, skipped_mapped_clip, understated_gram),
    ),
}
PRIVATE = sorted(name for name, entry in CONFIGURATIONS.items() if entry.faults)
