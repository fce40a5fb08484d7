"""Standing at the door: audits that watch releases, tests that replace the noise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import GaussianDraw
from dperm.mechanisms.noise import gaussian_draw, gaussian_integers, norm_laplace_integers
from dperm.mechanisms.selection import exponential_mechanism, permute_and_flip, report_noisy_min

Release = TypeVar("Release", bound=Callable[..., Any])

#: Called in place of a release with ``(releaser, method, private, *arguments)``; what it returns is what
#: the algorithm receives. ``method(releaser, private, *arguments)`` makes the release.
Watcher = Callable[..., Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_releases(watcher: Watcher) -> Iterator[None]:
    """Let ``watcher`` stand at the door: for audits and tests of mechanisms.

    It holds for the releases that this thread makes inside the block. The watcher sees the private sums
    as opaque as everybody else does, and a release that it does make is charged and drawn as always.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@dataclass(frozen=True)
class NoiseSamplers:
    """What the door draws with, each sampler called with the random bits first.

    Attributes
    ----------
    gaussian, norm_laplace : callable
        ``(bits, scale, grid_exponent, shape)``: integers, in units of the grid.
    gaussian_ahead : callable
        The same as a `GaussianDraw`, for compiled code that draws beside a pass over the data.
    exponential_mechanism, permute_and_flip, report_noisy_min : callable
        ``(bits, scores, rate or scale)``: the index of a candidate.
    """

    gaussian: Callable[..., NDArray[np.int64]] = gaussian_integers
    gaussian_ahead: Callable[..., GaussianDraw] = gaussian_draw
    norm_laplace: Callable[..., NDArray[np.int64]] = norm_laplace_integers
    exponential_mechanism: Callable[..., int] = exponential_mechanism
    permute_and_flip: Callable[..., int] = permute_and_flip
    report_noisy_min: Callable[..., int] = report_noisy_min


_EXACT = NoiseSamplers()
_samplers_in_use: ContextVar[NoiseSamplers] = ContextVar("samplers", default=_EXACT)


@contextmanager
def replace_noise(**samplers: Callable[..., Any]) -> Iterator[None]:
    """Draw with other samplers, named as in `NoiseSamplers`: for tests of mechanisms.

    It holds for the releases that this thread makes inside the block. What is stated and charged does not
    change: a result with replaced noise is as private as that noise.
    """
    token = _samplers_in_use.set(replace(_samplers_in_use.get(), **samplers))
    try:
        yield
    finally:
        _samplers_in_use.reset(token)


def samplers() -> NoiseSamplers:
    """The samplers that a release draws with."""
    return _samplers_in_use.get()


def draws_ahead() -> bool:
    """Whether sums and noise may be made in compiled code: nobody watches, and its sampler is in use."""
    own = samplers()
    replaced = own.gaussian is not _EXACT.gaussian and own.gaussian_ahead is _EXACT.gaussian_ahead
    return _watcher.get() is None and not replaced


def watched(method: Release) -> Release:
    """A method of the releaser that lets the watcher, if there is one, make the release."""

    @functools.wraps(method)
    def release(self: Any, private: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = _watcher.get()
        if watcher is None:
            return method(self, private, *args, **kwargs)
        return watcher(self, method, private, *args, **kwargs)

    return cast(Release, release)
