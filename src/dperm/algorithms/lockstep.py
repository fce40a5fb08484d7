"""Run several fits in lockstep: one read of the data serves the next step of all of them.

A fit is a generator. It yields a request for the sum of clipped gradients at its weights, receives the
bounded sum, releases it with noise, and finally returns its result. It depends only on the answers to its
own requests, so it computes the same bits alone as together with others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.algorithms.fit import FitResult
from dperm.objective.objective import Objective
from dperm.private_values.bounded import Bounded
from dperm.private_values.linear_map import DiagonalMap


class GradientRequest(NamedTuple):
    """Arguments of :meth:`dperm.Objective.clipped_gradient_sum`, or of `mapped_gradient_sum` with a map."""

    w: NDArray[np.float64]
    clip: float
    radius: float
    linear_map: DiagonalMap | None = None

    def sum_of(self, objective: Objective) -> Bounded:
        """The requested sum."""
        if self.linear_map is None:
            return objective.clipped_gradient_sum(self.w, self.clip, radius=self.radius)
        return objective.mapped_gradient_sum(self.w, self.clip, self.linear_map)


Steps = Generator[GradientRequest, Bounded, FitResult]


def alone(objective: Objective, fit: Steps) -> FitResult:
    """Run a single fit to completion."""
    try:
        request = next(fit)
        while True:
            request = fit.send(request.sum_of(objective))
    except StopIteration as end:
        result: FitResult = end.value
        return result


def in_lockstep(
    objective: Objective,
    fits: Sequence[Steps],
    folds: NDArray[np.int32] | None = None,
    left_out: Sequence[int] | None = None,
) -> list[FitResult]:
    """Run fits on the same objective to completion; results are in the order of `fits`.

    Requests must not have a linear map. With `folds`, fit k does not see the records of fold
    ``left_out[k]``: see :meth:`dperm.Objective.separate_gradient_sums`.
    """
    results: dict[int, FitResult] = {}
    requests: dict[int, GradientRequest] = {}
    sums: dict[int, Bounded | None] = dict.fromkeys(range(len(fits)))
    while sums:
        for k, own_sum in sums.items():
            try:
                requests[k] = next(fits[k]) if own_sum is None else fits[k].send(own_sum)
            except StopIteration as end:
                results[k] = end.value
        sums = {}
        if requests:
            weights, clips, radii, _ = zip(*requests.values(), strict=True)
            unseen = None if folds is None or left_out is None else [left_out[k] for k in requests]
            made = objective.separate_gradient_sums(
                np.stack(weights), clips, radius=radii, folds=folds, left_out=unseen
            )
            sums = dict(zip(requests, made, strict=True))
        requests = {}
    return [results[k] for k in range(len(fits))]
