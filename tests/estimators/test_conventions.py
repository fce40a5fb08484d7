"""scikit-learn's conventions, documentation of all parameters, and bad arguments that charge nothing."""

import inspect
import math

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from algorithms.problems import separable
from dperm import HuberRegressor, LinearSVC, LogisticRegression, QuantileRegressor
from dperm.losses import Hinge, Huber, Power

# Each with the arguments that it needs about the targets.
ESTIMATORS = {
    HuberRegressor: {"target_bound": 1.0},
    LinearSVC: {"classes": [-1, 1]},
    LogisticRegression: {"classes": [-1, 1]},
    QuantileRegressor: {"target_bound": 1.0},
}
_NO_COUNT = "sums are divided by the public number of records, in which those of weight 0 count"
_EQUIVALENCE = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


def expected_failures(estimator):
    """Checks of scikit-learn that must fail, and why.

    Without noise and a ridge term, the divisor of the sums does not matter.
    """
    exact_regression = estimator.solver == "nonprivate" and isinstance(estimator, RegressorMixin)
    return {
        "check_all_zero_sample_weights_error": "an error would tell that all private weights are 0",
        **({} if exact_regression else dict.fromkeys(_EQUIVALENCE, _NO_COUNT)),
    }


@pytest.mark.filterwarnings("ignore::dperm.errors.PrivacyWarning", "ignore::dperm.errors.CopyWarning")
@parametrize_with_checks(
    [
        LogisticRegression(n_threads=1),
        LogisticRegression(solver="dp_agd", n_threads=1),
        LogisticRegression(solver="nonprivate", n_threads=1),
        LogisticRegression(epsilon=1e3, row_norm=10.0, n_threads=1),
        LinearSVC(n_threads=1),
        LinearSVC(loss="squared_hinge", solver="nonprivate", n_threads=1),
        HuberRegressor(target_bound=100.0, n_threads=1),
        HuberRegressor(solver="nonprivate", row_norm=1e3, n_threads=1),
        HuberRegressor(threshold=math.inf, target_bound=100.0, n_threads=1),
        HuberRegressor(loss=Power(1.5), target_bound=100.0, n_threads=1),
        QuantileRegressor(target_bound=100.0, n_threads=1),
        QuantileRegressor(curvature=10.0, solver="nonprivate", row_norm=1e3, n_threads=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_sklearn_conventions(estimator, check):
    if check.func.__name__ == "check_class_weight_classifiers":
        # Its rows are that long, and otherwise noise hides its 100 records.
        estimator.set_params(epsilon=1e4, row_norm=60.0)
    check(estimator)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_every_parameter_and_attribute_is_documented_once(Estimator):
    text = inspect.getdoc(Estimator)
    assert "$" not in text
    documented = [line.split(" : ")[0] for line in text.splitlines() if " : " in line and line[0] != " "]
    X, y = separable(100, 2)
    model = Estimator(**ESTIMATORS[Estimator]).fit(X, y)
    fitted = {name for name in vars(model) if name.endswith("_")} | {"feature_names_in_"}
    assert sorted(documented) == sorted({*model.get_params(), *fitted})


ALIKE = [
    ({"epsilon": 0.0}, "epsilon must be a positive number"),
    ({"epsilon": "1"}, "epsilon must be a positive number"),
    ({"delta": -0.1}, "delta must be at least 0"),
    ({"delta": 1.0}, "delta must be at least 0"),
    ({"delta": 0.0, "solver": "noisy_gd"}, "delta must"),
    ({"solver": "magic"}, "solver must be 'auto' or one of"),
    ({"solver": ["noisy_gd"]}, "solver must be 'auto' or one of"),
    ({"l2": -1.0}, "l2 must be from 0 to 1e100"),
    ({"l2": None}, "l2 must be a number, got None"),
    ({"fit_intercept": None}, "fit_intercept must be True or False, got None"),
    ({"penalize_intercept": "yes"}, "penalize_intercept must be True or False"),
    ({"row_norm": 0.0}, "row_norm must be positive"),
    ({"row_norm": "1"}, "row_norm must be a number or None"),
    ({"schema": "people.toml"}, r"schema must be a dperm\.Schema"),
    ({"neighbors": "friends"}, "neighbors"),
    ({"calibration": "loose"}, "calibration"),
    ({"ledger": {}}, "ledger must be a ledger of dperm.accounting or None"),
    ({"non_finite": "drop"}, "non_finite must be one of"),
    ({"n_threads": 0}, "n_threads"),
    ({"random_state": "today"}, "random_state must be None"),
    ({"verbose": "very"}, "verbose must be an integer"),
    ({"solver_options": [1]}, "solver_options must be a mapping"),
    ({"solver_options": {"stepsize": 1.0}}, r"solver_options \['stepsize'\] are unknown to"),
]
BAD_ARGUMENTS = [
    *((Estimator, settings, message) for Estimator in ESTIMATORS for settings, message in ALIKE),
    (LogisticRegression, {"classes": ["no"]}, "classes must be two or more different labels"),
    (LogisticRegression, {"classes": ["no", "maybe"]}, "not in classes"),
    (LinearSVC, {"classes": [-1, 0, 1]}, "classes must be two different labels"),
    *((LinearSVC, {"loss": loss}, "loss must be") for loss in ("huber", "log", Huber(), 3, None, [])),
    (HuberRegressor, {"loss": Hinge()}, "loss must be a loss of residuals"),
    (HuberRegressor, {"loss": "hinge"}, "loss must be a loss of residuals"),
    (HuberRegressor, {"loss": Power(target_bound=2.0), "target_bound": 3.0}, "give one of them"),
    (HuberRegressor, {"loss": "power", "target_bound": None}, "target_bound must be given"),
    (HuberRegressor, {"target_bound": None}, r"target_bound must be given: a public bound on \|y\|"),
    (HuberRegressor, {"target_bound": -1.0}, "target_bound must be positive"),
    (HuberRegressor, {"target_bound": "1"}, "target_bound must be a number or None"),
    (HuberRegressor, {"threshold": math.inf, "solver": "privgene"}, "needs a loss with bounded slope"),
    (HuberRegressor, {"solver": "sufficient_statistics"}, "squared_error loss only, got huber"),
    (HuberRegressor, {"threshold": 0.0}, "threshold must be positive"),
    (HuberRegressor, {"threshold": None}, "threshold must be a number"),
    (QuantileRegressor, {"target_bound": None}, r"target_bound must be given: a public bound on \|y\|"),
    (QuantileRegressor, {"quantile": 1.0}, "level must be strictly between"),
    (QuantileRegressor, {"quantile": "median"}, "quantile must be a number"),
    (QuantileRegressor, {"curvature": 0.0}, "curvature must be between"),
    (QuantileRegressor, {"curvature": None}, "curvature must be a number"),
]


@pytest.mark.parametrize(
    ("Estimator", "settings", "message"),
    BAD_ARGUMENTS,
    ids=[f"{Estimator.__name__}-{settings}" for Estimator, settings, _ in BAD_ARGUMENTS],
)
def test_bad_arguments_cost_nothing(Estimator, settings, message, uncharged):
    X, y = separable(200, 3)
    with pytest.raises((ValueError, TypeError), match=message):
        Estimator(**{"ledger": uncharged, **ESTIMATORS[Estimator], **settings}).fit(X, y)


@pytest.mark.parametrize("Estimator", ESTIMATORS)
def test_flags_of_numpy_are_flags(Estimator):
    X, y = separable(200, 3)
    settings = {"random_state": 0, **ESTIMATORS[Estimator]}
    one, other = (Estimator(fit_intercept=flag, **settings).fit(X, y) for flag in (False, np.False_))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert np.all(one.intercept_ == 0.0)


class Tilted(LogisticRegression):
    """A user's subclass, with fewer parameters and an additional one."""

    def __init__(self, epsilon=1.0, *, tilt=0.5, classes=None, random_state=None):
        super().__init__(epsilon, l2=0.1, classes=classes, random_state=random_state)
        self.tilt = tilt


def test_estimators_can_be_derived_from():
    X, y = separable(200, 3)
    model = clone(Tilted(2.0, tilt=0.25, classes=[-1, 1], random_state=0))
    assert (model.get_params()["tilt"], model.epsilon, model.delta, model.l2) == (0.25, 2.0, 1e-6, 0.1)
    peer = LogisticRegression(2.0, l2=0.1, classes=[-1, 1], random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, peer.coef_)
