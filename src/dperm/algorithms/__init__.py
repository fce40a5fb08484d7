"""Algorithms of the literature, one file each, named as there."""

from dperm.algorithms.dp_agd import dp_agd
from dperm.algorithms.dp_sgd import dp_sgd
from dperm.algorithms.dp_sgd_gradient import dp_sgd_gradient
from dperm.algorithms.dp_sgd_output import dp_sgd_output
from dperm.algorithms.fit_result import FitResult
from dperm.algorithms.majority import majority
from dperm.algorithms.noisy_gd import noisy_gd
from dperm.algorithms.nonprivate import nonprivate
from dperm.algorithms.rrpsgd import rrpsgd

__all__ = [
    "FitResult",
    "dp_agd",
    "dp_sgd",
    "dp_sgd_gradient",
    "dp_sgd_output",
    "majority",
    "noisy_gd",
    "nonprivate",
    "rrpsgd",
]
