"""Mechanisms: exact noise, private selection and sampling, and the release of private sums."""

from dperm.mechanisms.noise import discrete_laplace, norm_laplace, rounded_gaussian
from dperm.mechanisms.smoothed_gradients import smooth_gradients
from dperm.mechanisms.smoothing import laplacian_smoothing
from dperm.mechanisms.without_privacy import release_without_privacy

__all__ = [
    "discrete_laplace",
    "laplacian_smoothing",
    "norm_laplace",
    "release_without_privacy",
    "rounded_gaussian",
    "smooth_gradients",
]


def __dir__() -> list[str]:
    return sorted(__all__)
