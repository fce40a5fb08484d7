"""Lower bounds on what an algorithm really leaks, and checks for developers of mechanisms.

An audit trains many times on two neighbouring data sets and tries to tell which one was used. How well
that works is a lower bound on epsilon, with a stated confidence: above the claim, the claim is false.
It cannot show that a claim is true.

The data sets are made up, so nothing needs protection and all noise comes from seeds: the same exact
samplers, fed by a reproducible generator instead of the cipher.
"""

from dperm.audit.fits import Coefficients, Transcript
from dperm.audit.lower_bound import certify_observations, epsilon_lower_bound
from dperm.audit.neighbours import LinearData, NeighbourPair, worst_case_neighbours
from dperm.audit.replay import ReplayReport, replay_check
from dperm.audit.result import AuditResult

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
