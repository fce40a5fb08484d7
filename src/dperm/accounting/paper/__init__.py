"""Published calibrations, for reproduction. Each computes the noise as printed and verifies it.

A function raises ValueError if the tight accountant does not certify the claimed guarantee, and warns
(`dperm.errors.PrivacyWarning`) if it does, but outside the range for which the paper proves it. Functions
called ``.._schedule`` choose steps and step sizes as the theorems do, with their bounds on the risk.

Formulas were derived independently and checked numerically. The numbers of lemmas, theorems, sections and
equations agree with notes from the arXiv and proceedings versions (Zhang et al., Wang et al., DP-LSSGD, Lee
and Kifer, Nikolov); those of older works that these build on were not checked against the publications.
"""

from dperm.accounting.paper.baselines import (
    AgdSplit,
    PureObjective,
    dp_agd,
    noisy_gd,
    objective_perturbation,
    objective_perturbation_pure,
    output_perturbation,
    privgene,
    smooth_erm_sensitivity,
    smooth_erm_sigma,
    textbook_sigma,
)
from dperm.accounting.paper.comparison import PaperComparison, compare_with_paper
from dperm.accounting.paper.nonsmooth import (
    BetaChoice,
    HolderConstants,
    HolderRun,
    feasible_beta,
    feasible_epsilon,
    holder_constants,
    sgd_gradient,
    sgd_gradient_schedule,
    sgd_output,
    sgd_output_schedule,
    sgd_output_sensitivity,
)
from dperm.accounting.paper.schedules import (
    TheoremSchedule,
    decaying_step_size,
    dp_lssgd_schedule,
    projected_gd_schedule,
    projected_gd_sizes,
    projected_gd_step_size,
    random_round_bound,
    round_probabilities,
    rrpsgd_schedule,
    smooth_erm_schedule,
)
from dperm.accounting.paper.stochastic import dp_lssgd, rrpsgd, sgd_advanced_composition, sgd_moments
from dperm.accounting.zcdp import zcdp_rho_bun_steinke

__all__ = [
    "AgdSplit",
    "BetaChoice",
    "HolderConstants",
    "HolderRun",
    "PaperComparison",
    "PureObjective",
    "TheoremSchedule",
    "compare_with_paper",
    "decaying_step_size",
    "dp_agd",
    "dp_lssgd",
    "dp_lssgd_schedule",
    "feasible_beta",
    "feasible_epsilon",
    "holder_constants",
    "noisy_gd",
    "objective_perturbation",
    "objective_perturbation_pure",
    "output_perturbation",
    "privgene",
    "projected_gd_schedule",
    "projected_gd_sizes",
    "projected_gd_step_size",
    "random_round_bound",
    "round_probabilities",
    "rrpsgd",
    "rrpsgd_schedule",
    "sgd_advanced_composition",
    "sgd_gradient",
    "sgd_gradient_schedule",
    "sgd_moments",
    "sgd_output",
    "sgd_output_schedule",
    "sgd_output_sensitivity",
    "smooth_erm_schedule",
    "smooth_erm_sensitivity",
    "smooth_erm_sigma",
    "textbook_sigma",
    "zcdp_rho_bun_steinke",
]
