"""Verification of published calibrations: their noise against the tight noise, and their true epsilon."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from dperm.accounting._checks import check_delta, check_real, shown
from dperm.errors import PrivacyWarning, warn_caller

Settings = ParamSpec("Settings")
Result = TypeVar("Result")

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
    proved : bool, default=True
        Whether the settings lie in the range that the paper proves.

    Examples
    --------
    >>> found = compare_with_paper("noisy_gd", epsilon=0.1, delta=1e-5, n_samples=1000, steps=100)
    >>> found.holds, round(found.true_epsilon, 3)
    (True, 0.06)
    """

    algorithm: str
    paper_noise: float
    tight_noise: float
    epsilon: float
    delta: float
    true_epsilon: float
    neighbors: str
    proved: bool = True

    @property
    def ratio(self) -> float:
        """Paper noise over tight noise; below 1 the claim is false or unproved."""
        return self.paper_noise / self.tight_noise

    @property
    def holds(self) -> bool:
        """Whether the claim is certified."""
        return self.true_epsilon <= self.epsilon * (1.0 + _SLACK)


_COMPARISONS: dict[str, Callable[..., PaperComparison]] = {}


Comparer = Callable[Settings, PaperComparison]


def within_doubles(formula: Callable[Settings, Result]) -> Callable[Settings, Result]:
    """Make a formula raise ValueError for numbers so extreme that its terms overflow or vanish."""

    @functools.wraps(formula)
    def evaluate(*args: Settings.args, **settings: Settings.kwargs) -> Result:
        try:
            return formula(*args, **settings)
        except ArithmeticError as error:
            given = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in settings.items())])
            raise ValueError(
                f"{formula.__name__}({given}) is beyond double precision: choose less extreme numbers."
            ) from error

    return evaluate


def compared(algorithm: str) -> Callable[[Comparer[Settings]], Comparer[Settings]]:
    """Register a comparison with `compare_with_paper` under this name."""

    def register(compare: Comparer[Settings]) -> Comparer[Settings]:
        _COMPARISONS[algorithm] = checked = within_doubles(compare)
        return checked

    return register


def published(algorithm: str) -> Callable[[Comparer[Settings]], Callable[Settings, float]]:
    """Register a comparison like `compared`, but return a function that gives the verified noise."""

    def decorate(compare: Comparer[Settings]) -> Callable[Settings, float]:
        checked = compared(algorithm)(compare)

        @functools.wraps(compare)
        def noise(*args: Settings.args, **settings: Settings.kwargs) -> float:
            return verified_noise(checked(*args, **settings))

        signature = inspect.signature(compare).replace(return_annotation="float")
        noise.__signature__ = signature  # type: ignore[attr-defined]
        return noise

    return decorate


def check_claim(epsilon: float, delta: float) -> tuple[float, float]:
    """Return a checked target for which published formulas and their powers stay within double precision."""
    expected = "a number > 0, infinite or between 1e-50 and 1e50"
    holds = lambda number: 1e-50 <= number <= 1e50 or number == math.inf  # noqa: E731
    return check_real(epsilon, "epsilon", expected, holds), check_delta(delta, least=1e-250)


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
        warn_caller(
            f"These settings are outside the range for which the paper proves its noise ({c.algorithm}); the "
            f"accountant certifies the claim (epsilon = {c.true_epsilon:.4g}).",
            PrivacyWarning,
        )
    return c.paper_noise


def compare_with_paper(algorithm: str, **settings: Any) -> PaperComparison:
    """Compare the published noise of an algorithm with the tight noise, and verify the published claim.

    Parameters
    ----------
    algorithm : str
        One of ``"output_perturbation_gd"``, ``"rrpsgd"``, ``"noisy_gd"``, ``"dp_agd"``, ``"dp_lssgd"``,
        ``"sgd_adv"``, ``"sgd_ma"``, ``"objective_perturbation"``, ``"objective_perturbation_pure"``,
        ``"privgene"``, ``"dp_sgd_output"``, ``"dp_sgd_gradient"``.
    **settings
        Public numbers: epsilon, delta and the keywords of the function of `dperm.accounting.paper`.

    Returns
    -------
    PaperComparison
        Both noises, their ratio, and the true epsilon of the published noise. False claims are reported
        (``holds`` is False), not raised.

    Raises
    ------
    ValueError, TypeError
        If the algorithm is unknown, a setting is missing, unknown or outside its range, or the paper has no
        noise for these settings at all.

    Examples
    --------
    >>> round(compare_with_paper("noisy_gd", epsilon=0.1, delta=1e-5, n_samples=1000, steps=100).ratio, 2)
    1.58
    """
    if not isinstance(algorithm, str) or algorithm not in _COMPARISONS:
        names = ", ".join(repr(name) for name in _COMPARISONS)
        raise ValueError(f"algorithm must be one of {names}, got {shown(algorithm)}.")
    return _COMPARISONS[algorithm](**settings)
