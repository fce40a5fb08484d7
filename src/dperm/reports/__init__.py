"""Reports for the people who answer for the data, and pictures of budgets, weights and accuracy."""

from dperm.reports.displays import BudgetDisplay, CoefficientDisplay, PrivacyUtilityDisplay
from dperm.reports.model_report import Report, report

__all__ = ["BudgetDisplay", "CoefficientDisplay", "PrivacyUtilityDisplay", "Report", "report"]
