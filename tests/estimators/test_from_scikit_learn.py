"""What somebody who comes from scikit-learn may get wrong is refused, or warned of."""

import warnings

import numpy as np
import pytest

from dperm import HuberRegressor, LogisticRegression, PrivateSearch
from dperm.errors import PrivacyWarning


@pytest.mark.parametrize("name", ["C", "alpha", "max_iter", "tol", "penalty", "n_jobs", "multi_class"])
def test_parameters_of_scikit_learn_are_refused_with_their_name_here(name):
    with pytest.raises(TypeError, match=f"no parameter '{name}' of scikit-learn: .*[a-z]"):
        LogisticRegression(**{name: 1})
    model = LogisticRegression(row_norm=1.0, classes=[0, 1])
    search = PrivateSearch(model, {name: [1, 2]}, 1.0, 1e-6)
    for refused in (lambda: model.set_params(**{name: 1}), lambda: search.fit(np.eye(2), [0, 1])):
        with pytest.raises(TypeError, match=f"no parameter '{name}' of scikit-learn"):
            refused()
    with pytest.raises(TypeError, match="unexpected keyword argument 'columns'"):
        LogisticRegression(columns=1)


def test_the_threshold_of_scikit_learn_is_no_privacy_budget():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    with pytest.warns(PrivacyWarning, match=r"HuberRegressor\(threshold=\.\.\.\)"):
        HuberRegressor(epsilon=1.35, row_norm=1.3, target_bound=1.0, n_public=500).fit(X, X[:, 0])
    with warnings.catch_warnings(action="error", category=PrivacyWarning):
        model = HuberRegressor(1.35, threshold=0.5, row_norm=1.3, target_bound=1.0, n_public=500)
        model.fit(X, X[:, 0])
