"""Exceptions and warnings that dperm raises on purpose."""

from __future__ import annotations


class PrivacyWarning(UserWarning):
    """The guarantee is weaker, or rests on more assumptions, than the call suggests."""


class DataError(ValueError):
    """The data cannot be used as they are (non-finite values, unknown labels, wrong shape)."""


class BudgetExceededError(RuntimeError):
    """A charge does not fit into what is left of a privacy budget.

    Nothing was charged and nothing was drawn: the budget is as it was before the call.

    Parameters
    ----------
    total, spent, remaining, requested : float
        Amounts in `unit`.
    unit : str
        What the amounts measure, for instance ``"mu^2"`` or ``"epsilon at delta=1e-06"``.
    advice : str, optional
        One sentence on what to do about it.
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
        message = (
            f"Privacy budget exceeded ({unit}): total {total:.6g}, spent {spent:.6g}, "
            f"remaining {remaining:.6g}, requested {requested:.6g}. Nothing was charged."
        )
        super().__init__(f"{message} {advice}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from keywords, so that the error survives the trip from a worker process."""
        return _rebuild_budget_error, (self.__dict__.copy(),)


def _rebuild_budget_error(fields: dict[str, object]) -> BudgetExceededError:
    return BudgetExceededError(**fields)  # type: ignore[arg-type]
