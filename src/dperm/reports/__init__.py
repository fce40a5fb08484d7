"""Reports for the people responsible for the data, and plots of budgets, weights and accuracy."""

from dperm.reports.displays import BudgetDisplay, CoefficientDisplay, PrivacyUtilityDisplay, ShapesDisplay
from dperm.reports.model_report import Report, report

__all__ = [
    "BudgetDisplay",
    "CoefficientDisplay",
    "PrivacyUtilityDisplay",
    "Report",
    "ShapesDisplay",
    "report",
]


def __dir__() -> list[str]:
    return sorted(__all__)
