"""scikit-learn estimators."""

from dperm.estimators.huber_regressor import HuberRegressor
from dperm.estimators.linear_svc import LinearSVC
from dperm.estimators.logistic_regression import LogisticRegression
from dperm.estimators.quantile_regressor import QuantileRegressor

__all__ = ["HuberRegressor", "LinearSVC", "LogisticRegression", "QuantileRegressor"]
