"""The result of an audit."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class AuditResult:
    """Lower bound on the privacy loss of a mechanism.

    Attributes
    ----------
    epsilon : float
        With probability ``confidence`` over the trainings, the mechanism is not (epsilon', delta)-DP in
        the sense of ``method`` for any epsilon' below this; 0 if nothing was found.
    mu : float or None
        Lower bound on mu of Gaussian differential privacy, for "gdp" and "gdp_threshold".
    delta, confidence : float
    method : str
        "gdp", "gdp_threshold", "zcdp", "profile" or "clopper_pearson", see :func:`epsilon_lower_bound`.
    trainings, certified : int
        All trainings, and those from which the bound was computed; half of them on each data set.
    threshold : float or None
        Scores above it were classified as the second data set; None if runs were compared in pairs.
    false_positive_rate, false_negative_rate : float
        Observed error rates of the threshold on the first and second data set; for pairs, both are the share
        of pairs in the wrong order.
    claim : float or None
        Epsilon at ``delta`` that the mechanism claims, if given; infinite if it claims nothing.
    rho : float or None
        Lower bound on rho of zero-concentrated differential privacy, for "zcdp".
    strength : float or None
        Lower bound on the strength within the family of profiles, for "profile".

    Examples
    --------
    >>> import numpy as np
    >>> from dperm.audit import certify_observations
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(0.0, size=1000), rng.normal(3.0, size=1000)
    >>> result = certify_observations(first, second, delta=1e-5, claim=1.0)
    >>> result.violates(), result.mu > 2.0
    (True, True)
    """

    epsilon: float
    mu: float | None
    delta: float
    confidence: float
    method: str
    trainings: int
    certified: int
    threshold: float | None
    false_positive_rate: float
    false_negative_rate: float
    claim: float | None = None
    rho: float | None = None
    strength: float | None = None

    def violates(self, claim_epsilon: float | None = None) -> bool:
        """Whether the bound refutes (claim_epsilon, delta); by default the claim of the audit.

        A true claim is refuted with probability at most ``1 - confidence``.
        """
        claim = self.claim if claim_epsilon is None else claim_epsilon
        if claim is None:
            raise ValueError("no claim to compare with: pass claim_epsilon")
        return self.epsilon > claim

    def __str__(self) -> str:
        lines = [
            f"epsilon >= {self.epsilon:.4g} at delta = {self.delta:g}"
            + "".join(
                f" ({name} >= {value:.4g})"
                for name, value in (("mu", self.mu), ("rho", self.rho), ("strength", self.strength))
                if value is not None
            )
            + f", confidence {self.confidence:.9g}",
            f"  {self.trainings} trainings, {self.certified} of them for the bound; method {self.method}",
            "  "
            + (
                "pairs of runs in the wrong order: "
                if self.threshold is None
                else f"threshold {self.threshold:.4g}, false positives {self.false_positive_rate:.4g}, "
                "false negatives "
            )
            + f"{self.false_negative_rate:.4g}",
        ]
        if self.claim == math.inf:
            lines.append("  NOT PRIVATE: the mechanism claims no finite epsilon")
        elif self.claim is not None:
            verdict = "VIOLATED" if self.violates() else "not contradicted"
            lines.append(f"  claim: epsilon = {self.claim:.4g}, {verdict}")
        return "\n".join(lines)
