"""scikit-learn estimators."""

from dperm.estimators.classifiers import LinearSVC, LogisticRegression
from dperm.estimators.regressors import HuberRegressor, QuantileRegressor

__all__ = ["HuberRegressor", "LinearSVC", "LogisticRegression", "QuantileRegressor"]
