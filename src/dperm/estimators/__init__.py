"""scikit-learn estimators."""

from dperm.estimators.logistic_regression import LogisticRegression

__all__ = ["LogisticRegression"]
