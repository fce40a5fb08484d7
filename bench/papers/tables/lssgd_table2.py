"""Multinomial logistic regression on MNIST: test accuracy in per cent."""

import numpy as np

import dperm
from dperm.accounting.gaussian import smoothing_beta
from dperm.algorithms import dp_lssgd
from papers.learning import digits, repeated

LONGEST = 48.91  # norm of a standardised training image with its intercept


def measure(mode: str, *, repetitions: int, **settings: float) -> tuple[float, float | None]:
    """Plain steps of one size; in default mode the package's settings, with momentum and averaging."""
    return repeated(lambda seed: accuracy(fit(mode, seed, **settings).coef), repetitions)


def fit(
    mode: str,
    seed: int,
    *,
    sigma: float,
    epsilon: float,
    delta: float,
    batch: int,
    epochs: int,
    plain_step: float,
    callback=None,
):
    """One run: steps of `plain_step` without smoothing, longer with it, so that noise has the same norm."""
    X, y, _, _ = digits()
    problem = dperm.Objective(
        "softmax", X, y, l2=1e-4, row_norm=LONGEST, fit_intercept=True, n_classes=10, n_threads=1
    )
    terms = {"smoothing": sigma, "sampling": "without_replacement", "neighbors": "replace_one"}
    if mode != "default":
        terms |= {"calibration": mode, "batch_size": batch, "steps": epochs * -(-len(X) // batch)}
        terms |= {
            "clip": 1.0,
            "step_size": plain_step / smoothing_beta(sigma, X.shape[1]) ** 0.5,
            "momentum": 0.0,
            "tail": 0.0,
        }
    return dp_lssgd(problem, epsilon, delta, random_state=seed, callback=callback, **terms)


def accuracy(coef: np.ndarray) -> float:
    """On the test images."""
    _, _, X, y = digits()
    return 100.0 * float(np.mean(np.argmax(X @ coef[:-1] + coef[-1], axis=1) == y))
