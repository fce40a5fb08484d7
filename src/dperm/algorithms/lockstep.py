"""Run several fits in lockstep: one read of the data serves the next step of all of them.

Fits that take equally many steps form a descent, a generator over arrays with an axis for its fits. It yields
requests for the sums of clipped gradients at its weights, receives the bounded sums, releases them with
noise, and finally returns the results. What it computes for a fit depends only on the sums of that fit, so
the bits are the same alone as together with others.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.algorithms.fit import FitResult
from dperm.objective.objective import Array, Objective
from dperm.private_values.linear_map import DiagonalMap
from dperm.private_values.separate_sums import SeparateSums


class GradientRequest(NamedTuple):
    """Arguments of :meth:`dperm.Objective.separate_gradient_sums`, or of `mapped_gradient_sum` with a map."""

    weights: Array
    clips: Sequence[float]
    radii: Sequence[float]
    linear_map: DiagonalMap | None = None


Descent = Generator[GradientRequest, SeparateSums, list[FitResult]]


def alone(objective: Objective, descent: Descent) -> FitResult:
    """Run the descent of a single fit to completion."""
    try:
        request = next(descent)
        while True:
            request = descent.send(_single_sum(objective, request))
    except StopIteration as end:
        result: FitResult = end.value[0]
        return result


def _single_sum(objective: Objective, request: GradientRequest) -> SeparateSums:
    (w,), (clip,), (radius,), linear_map = request
    if linear_map is None:
        return SeparateSums.of_one(objective.clipped_gradient_sum(w, clip, radius=radius))
    return SeparateSums.of_one(objective.mapped_gradient_sum(w, clip, linear_map))


def in_lockstep(
    objective: Objective,
    descents: Sequence[Descent],
    folds: NDArray[np.int32] | None = None,
    left_out: Sequence[Sequence[int]] = (),
) -> list[list[FitResult]]:
    """Run descents on the same objective to completion; results are in the order of `descents`.

    Requests must not have a linear map. With `folds`, fit k of descent i does not see the records of fold
    ``left_out[i][k]``: see :meth:`dperm.Objective.separate_gradient_sums`.
    """
    results: dict[int, list[FitResult]] = {}
    requests = {i: next(descent) for i, descent in enumerate(descents)}
    while requests:
        weights, clips, radii, _ = zip(*requests.values(), strict=True)
        unseen = None if folds is None else np.concatenate([left_out[i] for i in requests])
        sums = objective.separate_gradient_sums(
            np.concatenate(weights),
            np.concatenate(clips),
            radius=np.concatenate(radii),
            folds=folds,
            left_out=unseen,
        )
        first = 0
        for i, asked in list(requests.items()):
            own = sums[first : first + len(asked.weights)]
            first += len(asked.weights)
            try:
                requests[i] = descents[i].send(own)
            except StopIteration as end:
                results[i] = end.value
                del requests[i]
    return [results[i] for i in range(len(descents))]
