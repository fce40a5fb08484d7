"""Algorithms of the literature, one file each, named as there.

Each is a function of an objective, a privacy budget and settings in keywords. A setting that is not given
follows from public numbers. These arguments are common to all of them:

epsilon, delta
    The privacy budget. An infinite epsilon runs without noise and protects nothing. Delta is strictly between
    0 and 1; some algorithms take ``delta=0`` for a pure guarantee.
calibration
    ``"tight"``: the least noise with a proof. ``"paper"``: the published noise, which is refused unless the
    tight accountant confirms the claimed guarantee.
neighbors
    The neighbouring relation: a record is added or removed (``"add_or_remove"``), or replaced
    (``"replace_one"``). By default the ledger's, and ``"add_or_remove"`` without a ledger.
ledger
    A :class:`dperm.accounting.PrivacyLedger`. It is charged once, before anything is drawn.
random_state
    None draws cryptographic noise and samples, from separate streams. A seed or a generator makes a run
    reproducible, for tests; a ledger refuses them.
callback
    Called after each iteration with a dictionary of released and public values: ``iteration``, ``steps``,
    ``coef`` and others. :func:`dperm.progress` makes one. Its `close` method, if it has one, is called in the
    end.

Whatever can be refused is refused before the ledger is charged: ValueError or TypeError for a setting out of
range, incompatible settings, an objective that the algorithm does not support, or a paper calibration that
does not give the claimed guarantee; :class:`dperm.errors.DataError` for more records than ``n_public``, if
the proof needs a bound on their number; :class:`dperm.errors.BudgetExceededError` if the ledger cannot afford
the fit.
"""

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
from dperm.algorithms.privgene import privgene
from dperm.algorithms.rrpsgd import rrpsgd
from dperm.algorithms.sufficient_statistics import sufficient_statistics
from dperm.algorithms.whitened_gd import whitened_gd

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
    "privgene",
    "rrpsgd",
    "sufficient_statistics",
    "whitened_gd",
]


def __dir__() -> list[str]:
    return sorted(__all__)
