"""Mechanisms: exact noise, private selection and sampling, and the door from private sums to numbers."""

from dperm.mechanisms.noise import discrete_laplace, norm_laplace, rounded_gaussian
from dperm.mechanisms.release import release_without_privacy
from dperm.mechanisms.smoothing import laplacian_smoothing

__all__ = [
    "discrete_laplace",
    "laplacian_smoothing",
    "norm_laplace",
    "release_without_privacy",
    "rounded_gaussian",
]
