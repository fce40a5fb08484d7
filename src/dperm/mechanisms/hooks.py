"""Hooks into releases: audits watch them, tests replace the noise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import GaussianDraw
from dperm.mechanisms.noise import gaussian_draw, gaussian_integers, norm_laplace_integers
from dperm.mechanisms.selection import exponential_mechanism, permute_and_flip, report_noisy_min
from dperm.objective.hooks import set_within

Release = TypeVar("Release", bound=Callable[..., Any])
Value = TypeVar("Value")

#: Called instead of a release, with ``(releaser, method, private, *arguments)``; the algorithm receives what
#: it returns. ``method(releaser, private, *arguments)`` makes the release.
Watcher = Callable[..., Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch_releases(watcher: Watcher) -> AbstractContextManager[None]:
    """Call ``watcher`` for every release that this thread makes inside the block, for audits and tests.

    Private sums are as opaque to the watcher as to anyone else, and releases that it makes are charged and
    drawn as usual.
    """
    return set_within(_watcher, watcher)


@dataclass(frozen=True)
class NoiseSamplers:
    """The samplers of releases; the first argument of each is the random bits."""

    # (bits, scale, grid_exponent, shape) -> integers, in units of the grid
    gaussian: Callable[..., NDArray[np.int64]] = gaussian_integers
    norm_laplace: Callable[..., NDArray[np.int64]] = norm_laplace_integers
    # the same as `gaussian`, deferred, for compiled code that draws during a pass over the data
    gaussian_ahead: Callable[..., GaussianDraw] = gaussian_draw
    # (bits, scores, rate or scale) -> index of a candidate
    exponential_mechanism: Callable[..., int] = exponential_mechanism
    permute_and_flip: Callable[..., int] = permute_and_flip
    report_noisy_min: Callable[..., int] = report_noisy_min


_EXACT = NoiseSamplers()
_samplers_in_use: ContextVar[NoiseSamplers] = ContextVar("samplers", default=_EXACT)


def replace_noise(**samplers: Callable[..., Any]) -> AbstractContextManager[None]:
    """Let releases that this thread makes inside the block draw with other samplers of `NoiseSamplers`.

    For tests of mechanisms. Statements and charges do not change: a result is as private as its actual noise.
    """
    return set_within(_samplers_in_use, replace(_samplers_in_use.get(), **samplers))


def samplers() -> NoiseSamplers:
    """The samplers in use."""
    return _samplers_in_use.get()


def draws_ahead() -> bool:
    """Whether compiled code may make sums and noise: no watcher is set, and its sampler is in use."""
    own = samplers()
    replaced = own.gaussian is not _EXACT.gaussian and own.gaussian_ahead is _EXACT.gaussian_ahead
    return _watcher.get() is None and not replaced


def watched(method: Release) -> Release:
    """Decorate a method of the releaser: the watcher, if there is one, is called instead."""

    @functools.wraps(method)
    def release(self: Any, private: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = _watcher.get()
        if watcher is None:
            return method(self, private, *args, **kwargs)
        return watcher(self, method, private, *args, **kwargs)

    return cast(Release, release)
