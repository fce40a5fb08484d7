"""Privacy accounting: how much noise a guarantee needs, and what was spent.

Everything works on public numbers; only `LedgerPart` looks at records, to assign them to the parts of a
split. Results are rounded to the safe side: noise, costs, epsilon and delta up; budgets, rates, mu and rho
down. Every function raises ValueError for an argument out of range and TypeError for one of the wrong type,
and says what it expected.
"""

from dperm.accounting.approximate_gdp import approximate_gdp
from dperm.accounting.budget import Budget, ScheduledBudget
from dperm.accounting.events import (
    ExponentialMechanismRelease,
    GaussianRelease,
    PerturbedMinimumRelease,
    PrivacyEvent,
    PureRelease,
)
from dperm.accounting.gaussian import (
    gaussian_delta,
    gaussian_sigma,
    gdp_epsilon,
    gdp_mu,
    smoothing_beta,
    smoothing_gamma,
)
from dperm.accounting.ledger.cost import Cost, FitCost
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.ledger import Ledger
from dperm.accounting.ledger.privacy_ledger import LedgerPart, PrivacyLedger, check_ledger
from dperm.accounting.ledger.reports import export_ledger, ledger_report
from dperm.accounting.ledger.sqlite_ledger import SqliteLedger, ledger_names, open_ledger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import NoiseChoice, gaussian_or_norm_laplace
from dperm.accounting.paper import PaperComparison, compare_with_paper
from dperm.accounting.pure_composition import advanced_composition, amplified_epsilon, group_privacy_target
from dperm.accounting.random_rounds import random_round_noise_multiplier
from dperm.accounting.selection import (
    bounded_range_eta,
    bounded_range_eta_from_mu,
    bounded_range_mu,
    bounded_range_rho,
    exponential_mechanism_rate,
)
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import Sampling, SubsamplingAccountant, sgd_delta, sgd_epsilon
from dperm.accounting.units import (
    UNITS_PER_ONE,
    Accountant,
    Units,
    budget_units,
    gaussian_noise_multiplier,
    pure_epsilon,
    selection_eta,
)
from dperm.accounting.zcdp import zcdp_epsilon, zcdp_rho, zcdp_rho_bun_steinke

__all__ = [
    "UNITS_PER_ONE",
    "Accountant",
    "Budget",
    "Cost",
    "ExponentialMechanismRelease",
    "FitCost",
    "GaussianRelease",
    "Ledger",
    "LedgerEntry",
    "LedgerPart",
    "Neighbours",
    "NoiseChoice",
    "PaperComparison",
    "PerturbedMinimumRelease",
    "PrivacyEvent",
    "PrivacyLedger",
    "PureRelease",
    "Sampling",
    "ScheduledBudget",
    "SqliteLedger",
    "SubsamplingAccountant",
    "Units",
    "advanced_composition",
    "amplified_epsilon",
    "approximate_gdp",
    "bounded_range_eta",
    "bounded_range_eta_from_mu",
    "bounded_range_mu",
    "bounded_range_rho",
    "budget_units",
    "check_ledger",
    "compare_with_paper",
    "exponential_mechanism_rate",
    "export_ledger",
    "gaussian_delta",
    "gaussian_noise_multiplier",
    "gaussian_or_norm_laplace",
    "gaussian_sigma",
    "gdp_epsilon",
    "gdp_mu",
    "group_privacy_target",
    "ledger_names",
    "ledger_report",
    "noise_multiplier",
    "open_ledger",
    "pure_epsilon",
    "random_round_noise_multiplier",
    "selection_eta",
    "sgd_delta",
    "sgd_epsilon",
    "smoothing_beta",
    "smoothing_gamma",
    "zcdp_epsilon",
    "zcdp_rho",
    "zcdp_rho_bun_steinke",
]
