"""What a published calibration is worth: its noise next to the tight noise, and its true epsilon."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from dperm.errors import PrivacyWarning

# Rounding of the certified epsilon to the safe side must not turn an equality into a refusal.
_SLACK = 1e-9


@dataclass(frozen=True)
class PaperComparison:
    """A published calibration, verified.

    Parameters
    ----------
    algorithm : str
        Name as in `compare_with_paper`.
    paper_noise, tight_noise : float
        Standard deviations (or scales) for the same release and relation, in the same unit.
    epsilon, delta : float
        What the paper claims.
    true_epsilon : float
        What the tight accountant certifies for the paper's noise at the same delta (an upper bound).
    neighbors : str
        Neighbouring relation.
    proved : bool
        Whether the settings lie in the range that the paper proves.
    """

    algorithm: str
    paper_noise: float
    tight_noise: float
    epsilon: float
    delta: float
    true_epsilon: float
    neighbors: str
    proved: bool

    @property
    def ratio(self) -> float:
        """Paper noise over tight noise; below 1 the claim is false or unproved."""
        return self.paper_noise / self.tight_noise

    @property
    def holds(self) -> bool:
        """Whether the claim is certified."""
        return self.true_epsilon <= self.epsilon * (1.0 + _SLACK)


def verified_noise(comparison: PaperComparison) -> float:
    """Return the paper's noise if its claim is certified.

    Raises
    ------
    ValueError
        If the claimed (epsilon, delta) is not certified.

    Warns
    -----
    PrivacyWarning
        If it is, but outside the range that the paper proves.
    """
    c = comparison
    if not c.holds:
        raise ValueError(
            f"The published noise of {c.algorithm!r} is not ({c.epsilon:g}, {c.delta:g})-DP under "
            f"{c.neighbors!r}: the accountant certifies epsilon = {c.true_epsilon:.4g} only. "
            "Use calibration='tight'."
        )
    if not c.proved:
        warnings.warn(
            f"These settings are outside the range for which the paper proves its noise ({c.algorithm}); the "
            f"accountant certifies the claim (epsilon = {c.true_epsilon:.4g}).",
            PrivacyWarning,
            stacklevel=3,
        )
    return c.paper_noise
