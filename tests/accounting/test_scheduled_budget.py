"""A schedule allows what it lists, and nothing else."""

import pytest

from dperm.accounting.budget import ScheduledBudget
from dperm.accounting.events import GaussianRelease, PureRelease
from dperm.errors import BudgetExceededError


def test_only_what_is_scheduled_fits():
    budget = ScheduledBudget(GaussianRelease(1.5), count=3, accountant="pld")
    budget.spend(GaussianRelease(1.5), count=2)
    assert budget.fits(GaussianRelease(1.5))
    assert not budget.fits(GaussianRelease(1.5), count=2)
    for other in (GaussianRelease(1.4), GaussianRelease(1.6), PureRelease(0.1)):
        with pytest.raises(BudgetExceededError):
            budget.spend(other)
    budget.spend(GaussianRelease(1.5))
    with pytest.raises(BudgetExceededError, match="scheduled releases"):
        budget.spend(GaussianRelease(1.5))
    assert budget.spent_units == budget.total_units == 3
