"""Exceptions and warnings of dperm."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = [
    "BudgetExceededError",
    "CopyWarning",
    "DataError",
    "DefaultBoundWarning",
    "ExactScoreWarning",
    "ExactSizeWarning",
    "InferenceWarning",
    "LedgerCorruptError",
    "LedgerError",
    "LedgerFullError",
    "LedgerInDoubtError",
    "LedgerLockedError",
    "LedgerMismatchError",
    "LedgerNotFoundError",
    "LedgerReadOnlyError",
    "LedgerVersionError",
    "PrivacyWarning",
    "SeededNoiseWarning",
    "SlowFitWarning",
]

_PACKAGE = str(Path(__file__).parent)


def __dir__() -> list[str]:
    return sorted(__all__)


def warn_caller(message: str, category: type[Warning], beyond: tuple[str, ...] = ()) -> None:
    """Warn with the location of the innermost caller outside this package and the folders `beyond`."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, *beyond)):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class PrivacyWarning(UserWarning):
    """The guarantee is weaker, or rests on more assumptions, than the call suggests."""


class SeededNoiseWarning(PrivacyWarning):
    """The noise is seeded: fits with equal seeds draw equal noise, which cancels in their difference."""


class ExactScoreWarning(PrivacyWarning):
    """A score was computed from the exact records: no guarantee covers it."""


class ExactSizeWarning(PrivacyWarning):
    """The exact number of records is published, since no `n_public` was given."""


class DefaultBoundWarning(PrivacyWarning):
    """A public bound was not given, and a default that nobody chose clips the records to it."""


class InferenceWarning(UserWarning):
    """The intervals are for a different quantity than the call suggests."""


class SlowFitWarning(UserWarning):
    """A fit will take long because of its number of weights; its result is not affected."""


class DataError(ValueError):
    """The data are invalid (non-finite values, unknown labels, wrong shape)."""


class BudgetExceededError(RuntimeError):
    """A charge exceeds what is left of a privacy budget.

    Nothing was charged and no noise was drawn: the budget is as it was before the call.

    Parameters
    ----------
    total, spent, remaining, requested : float
        Amounts in `unit`.
    unit : str
        What the amounts measure, for instance ``"mu^2"`` or ``"epsilon at delta=1e-06"``.
    advice : str, optional
        What to do about it, in one sentence.
    """

    def __init__(
        self,
        *,
        total: float,
        spent: float,
        remaining: float,
        requested: float,
        unit: str,
        advice: str = "",
    ) -> None:
        self.total = total
        self.spent = spent
        self.remaining = remaining
        self.requested = requested
        self.unit = unit
        self.advice = advice
        left = max(0.0, total - spent)
        message = (
            f"Privacy budget exceeded ({unit}): total {total:.6g}, spent {spent:.6g}, left {left:.6g}; "
            f"requested {requested:.6g}, and at most {remaining:.6g} fits. Nothing was charged."
        )
        super().__init__(f"{message} {advice}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the keywords, so that worker processes can raise the error."""
        return _rebuild_budget_error, (self.__dict__.copy(),)


def _rebuild_budget_error(fields: dict[str, object]) -> BudgetExceededError:
    return BudgetExceededError(**fields)  # type: ignore[arg-type]


class CopyWarning(UserWarning):
    """The data were copied because their memory layout or dtype cannot be read in place."""


class LedgerError(RuntimeError):
    """A durable ledger could not be read or charged, so nothing may be released.

    Parameters
    ----------
    path : str
        The ledger file.
    problem : str
        What happened, one sentence or more.
    advice : str, optional
        What to do about it.
    """

    outcome = "Nothing was charged."

    def __init__(self, path: str, problem: str, advice: str = "") -> None:
        super().__init__(path, problem, advice)
        self.path = path
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        return f"Ledger file {self.path!r}: {self.problem} {self.outcome} {self.advice}".rstrip()


class LedgerNotFoundError(LedgerError, LookupError):
    """The file does not exist, or holds no ledger of that name."""


class LedgerMismatchError(LedgerError, ValueError):
    """The ledger exists with a different budget."""


class LedgerLockedError(LedgerError):
    """Another process held the lock on the file for longer than the timeout."""


class LedgerReadOnlyError(LedgerError):
    """The file or its folder is not writable."""


class LedgerFullError(LedgerError):
    """The disk is full."""


class LedgerCorruptError(LedgerError):
    """The file is damaged, altered, incomplete, or not a ledger."""


class LedgerVersionError(LedgerError):
    """The file was written by a newer version of dperm."""


class LedgerInDoubtError(LedgerError):
    """The commit of a charge failed: it may or may not be in the file."""

    outcome = "The charge may have been stored and counts if it was."
