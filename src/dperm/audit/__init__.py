"""Privacy audits: lower bounds on the privacy loss of an algorithm, and checks for developers of mechanisms.

An audit trains many times on two neighbouring data sets and tries to infer which one was used. Its success
rate gives a lower bound on epsilon, with a stated confidence; a bound above the claim refutes the claim. An
audit cannot prove a claim.

The data sets are synthetic, so nothing needs protection and all noise is seeded: the same exact samplers,
with a reproducible generator instead of the cipher.
"""

from dperm.audit.fits import Coefficients, Transcript
from dperm.audit.lower_bound import AuditResult, certify_observations, epsilon_lower_bound
from dperm.audit.neighbours import LinearData, NeighbourPair, worst_case_neighbours
from dperm.audit.replay import ReplayReport, replay_check

__all__ = [
    "AuditResult",
    "Coefficients",
    "LinearData",
    "NeighbourPair",
    "ReplayReport",
    "Transcript",
    "certify_observations",
    "epsilon_lower_bound",
    "replay_check",
    "worst_case_neighbours",
]


def __dir__() -> list[str]:
    return sorted(__all__)
