"""Privacy accounting: how much noise a guarantee needs, and what was spent.

Everything works on public numbers; only `LedgerPart` looks at records, to assign them to the parts of a
split. Results are rounded to the safe side: noise, costs, epsilon and delta up; budgets, rates, mu and rho
down. Every function raises ValueError for an argument out of range and TypeError for one of the wrong type,
and says what it expected.
"""

from dperm.accounting.gaussian import (
    gaussian_delta,
    gaussian_sigma,
    gdp_epsilon,
    gdp_mu,
    smoothing_beta,
    smoothing_gamma,
)
from dperm.accounting.ledger.ledger import Ledger
from dperm.accounting.ledger.privacy_ledger import LedgerPart, PrivacyLedger
from dperm.accounting.ledger.reports import export_ledger
from dperm.accounting.ledger.sqlite_ledger import SqliteLedger, open_ledger
from dperm.accounting.sgd_calibration import noise_multiplier
from dperm.accounting.subsampling import sgd_epsilon
from dperm.accounting.zcdp import zcdp_epsilon, zcdp_rho

__all__ = [
    "Ledger",
    "LedgerPart",
    "PrivacyLedger",
    "SqliteLedger",
    "export_ledger",
    "gaussian_delta",
    "gaussian_sigma",
    "gdp_epsilon",
    "gdp_mu",
    "noise_multiplier",
    "open_ledger",
    "sgd_epsilon",
    "smoothing_beta",
    "smoothing_gamma",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __dir__() -> list[str]:
    return sorted(__all__)
