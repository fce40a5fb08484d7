"""What an algorithm requires of its objective: a convex loss, bounded gradients, a ridge term, ...

Each algorithm declares what its guarantee (or its usefulness) rests on and refuses any other objective.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from dperm.losses import Loss
from dperm.objective.objective import Objective

Algorithm = TypeVar("Algorithm", bound=Callable[..., Any])


@dataclass(frozen=True)
class Needs:
    """Properties that an algorithm requires of an objective."""

    convex: bool = False  # the loss is convex in the weights
    smooth: bool = False  # the gradient of the loss is Lipschitz continuous
    lipschitz: bool = False  # the gradient of the loss is bounded
    strongly_convex: bool = False  # ``l2 > 0`` and the ridge term covers every weight
    no_ridge: bool = False  # ``l2 = 0``: a ridge term biases the estimates that intervals are for
    linear_prediction: bool = False  # the loss depends on a single linear prediction, unlike softmax
    labels: bool = False  # targets are the labels -1 and +1
    intercept: bool = False  # the objective has an intercept
    random_access: bool = False  # single records are read in random order
    whole_rows: bool = False  # rows can be made dense, as sums of outer products or along every axis need
    unweighted: bool = False  # records have no weights
    private_class_weight: bool = False  # not a requirement: the algorithm supports ``class_weight="private"``
    # Names of the only losses that are allowed; empty for all with these properties.
    losses: tuple[str, ...] = ()

    def refusal(self, objective: Objective) -> str | None:
        """Why the algorithm cannot run on the objective, as the end of a sentence; None if it can."""
        loss, row_norm = objective.loss, objective.row_norm
        if objective.weighs_privately and not self.private_class_weight:
            return (
                "does not release the frequencies of the classes: for class_weight='private' use whitened_gd"
            )
        if self.unweighted and objective.weights is not None:
            return "takes no weights of records or classes: use noisy_gd, whitened_gd or dp_sgd"
        if self.losses and loss.name not in self.losses:
            return f"works with the {' or '.join(self.losses)} loss only, got {loss.name}"
        if self.linear_prediction and len(objective.shape) != 1:
            return f"needs a loss of one linear prediction, and {loss.name} has one per class"
        if self.labels and not loss.classification:
            return f"needs a classification loss, and {loss.name} is not"
        if self.intercept and not objective.fit_intercept:
            return "needs an intercept: pass fit_intercept=True"
        if self.random_access and objective.n_partitions:
            return (
                "reads single records in random order, which data in partitions do not allow: use dp_sgd "
                "(Poisson samples), or noisy_gd or whitened_gd (full batches)"
            )
        if self.whole_rows and not objective.reads_whole_rows:
            return (
                f"needs rows made dense, and these sparse data have too many columns for that "
                f"({objective.n_columns}): use noisy_gd, dp_sgd or dp_agd"
            )
        if self.convex and not loss.convex:
            return f"needs a convex loss, and {loss.name} is not"
        if self.smooth and loss.smoothness(row_norm) == math.inf:
            return f"needs a smooth loss, and {loss.name} {_roughness(loss)}"
        if self.lipschitz and loss.lipschitz(row_norm) == math.inf:
            return f"needs a loss with bounded slope, and that of {loss.name} grows without limit"
        if self.no_ridge and objective.l2 > 0.0:
            return "needs l2 = 0: a ridge term biases the estimates that intervals are for"
        if self.strongly_convex and not objective.l2 > 0.0:
            return "needs a strongly convex objective: pass l2 > 0"
        if self.strongly_convex and objective.fit_intercept and not objective.penalize_intercept:
            return "needs a ridge term on every weight: pass penalize_intercept=True"
        return None


def needs(**properties: Any) -> Callable[[Algorithm], Algorithm]:
    """Decorate an algorithm with its `Needs`: kept as ``algorithm.needs``, and checked before each run."""
    required = Needs(**properties)

    def declare(algorithm: Algorithm) -> Algorithm:
        name = algorithm.__name__

        @functools.wraps(algorithm)
        def checked(objective: Objective, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(getattr(objective, "loss", None), Loss):
                raise TypeError(f"{name}() needs a dperm.Objective, got {type(objective).__name__}")
            reason = required.refusal(objective)
            if reason is not None:
                raise ValueError(f"{name} {reason}")
            return algorithm(objective, *args, **kwargs)

        checked.needs = required  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return declare


def _roughness(loss: Loss) -> str:
    if not loss.kink_jump > 0.0:
        return "is not"
    return "has a kink: pass its smoothed(curvature) (to QuantileRegressor: a finite curvature=)"
