"""Algorithms of the literature, one file each, named as there."""

from dperm.algorithms.dp_agd import dp_agd
from dperm.algorithms.dp_lssgd import dp_lsadam, dp_lssgd
from dperm.algorithms.dp_sgd import dp_sgd
from dperm.algorithms.dp_sgd_gradient import dp_sgd_gradient
from dperm.algorithms.dp_sgd_output import dp_sgd_output
from dperm.algorithms.fit import FitResult
from dperm.algorithms.inference import Estimates, InferenceResult
from dperm.algorithms.majority import majority
from dperm.algorithms.noisy_gd import noisy_gd
from dperm.algorithms.noisy_newton import noisy_newton
from dperm.algorithms.nonprivate import nonprivate
from dperm.algorithms.objective_perturbation import objective_perturbation
from dperm.algorithms.output_perturbation_gd import output_perturbation_gd
from dperm.algorithms.preconditioned_gd import preconditioned_gd
from dperm.algorithms.privgene import privgene
from dperm.algorithms.rrpsgd import rrpsgd
from dperm.algorithms.sufficient_statistics import sufficient_statistics

__all__ = [
    "Estimates",
    "FitResult",
    "InferenceResult",
    "dp_agd",
    "dp_lsadam",
    "dp_lssgd",
    "dp_sgd",
    "dp_sgd_gradient",
    "dp_sgd_output",
    "majority",
    "noisy_gd",
    "noisy_newton",
    "nonprivate",
    "objective_perturbation",
    "output_perturbation_gd",
    "preconditioned_gd",
    "privgene",
    "rrpsgd",
    "sufficient_statistics",
]
