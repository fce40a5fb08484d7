"""Algorithms of the literature, one file each, named as there."""

from dperm.algorithms.dp_agd import dp_agd
from dperm.algorithms.dp_newton import dp_newton
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.majority import majority
from dperm.algorithms.noisy_gd import noisy_gd
from dperm.algorithms.nonprivate import nonprivate
from dperm.algorithms.preconditioned_gd import preconditioned_gd
from dperm.algorithms.sufficient_statistics import sufficient_statistics

__all__ = [
    "FitResult",
    "dp_agd",
    "dp_newton",
    "majority",
    "noisy_gd",
    "nonprivate",
    "preconditioned_gd",
    "sufficient_statistics",
]
