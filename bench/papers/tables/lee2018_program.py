"""DP-AGD as its authors' program runs it, in floating point. Nothing here is private."""

import numpy as np
from scipy.special import expit

from papers.learning import fold, records, repeated

CANDIDATES, GROWTH, CLIP, LONGEST = 20, 0.1, 3.0, 2.0

#: Loss of a margin, and its slope.
LOSSES = {
    "logistic": (lambda margin: np.logaddexp(0.0, -margin), lambda margin: -expit(-margin)),
    "svm": (lambda margin: np.maximum(1.0 - margin, 0.0), lambda margin: -1.0 * (margin < 1.0)),
}


def measure(
    mode: str, *, model: str, data: str, repetitions: int, **terms: float
) -> tuple[float, float | None]:
    """Paper: noise subtracted, as in the program. Tight: added, report-noisy-max."""
    X, y, _ = records(data)
    X = np.column_stack([X, np.ones(len(y))])
    sign = -1.0 if mode == "paper" else 1.0

    def accuracy(seed: int) -> float:
        train, test = fold(data, seed)
        coef = _descend(X[train], y[train], LOSSES[model], sign, np.random.default_rng(seed), **terms)
        return 100.0 * float(np.mean(np.sign(X[test] @ coef) == y[test]))

    return repeated(accuracy, repetitions)


def _descend(
    X, y, losses, sign: float, rng: np.random.Generator, *, epsilon: float, delta: float, splits=60
) -> np.ndarray:
    """The program tests the budget after it is spent, and takes the candidate before the chosen one."""
    loss, slope = losses
    log = np.log(1.0 / delta)
    left = (np.sqrt(log + epsilon) - np.sqrt(log)) ** 2
    share = 0.5 * epsilon / splits
    selection, gradient = share**2 / 2.0, share**2 / (4.0 * np.log(1.25 / delta))
    norms, coef, longest, chosen, updates = np.linalg.norm(X, axis=1), np.zeros(X.shape[1]), LONGEST, [], 0
    while left > 0.0:
        margins = X @ coef
        slopes = y * slope(y * margins)
        exact = X.T @ (slopes * np.minimum(1.0, CLIP / np.maximum(np.abs(slopes) * norms, 1e-12)))
        measured = exact + CLIP / np.sqrt(2.0 * gradient) * rng.standard_normal(coef.size)
        left -= gradient
        choice = 0
        while choice == 0:
            direction = measured / np.linalg.norm(measured) + 1e-3 * coef
            sizes = np.linspace(0.0, longest, CANDIDATES + 1)
            along = X @ direction
            sums = [np.minimum(loss(y * (margins - s * along)), CLIP).sum() for s in sizes]
            noise = rng.exponential(CLIP / np.sqrt(2.0 * selection), sizes.size)
            choice = int(np.argmax(sign * noise - sums))
            left -= selection
            if left < 0.0:
                return coef
            if choice:
                coef = coef - sizes[choice - 1] * direction
                left -= gradient
            else:
                grown = (1.0 + GROWTH) * gradient
                again = exact + CLIP / np.sqrt(2.0 * (grown - gradient)) * rng.standard_normal(coef.size)
                measured = (gradient * measured + (grown - gradient) * again) / grown
                left, gradient = left - (grown - gradient), grown
        chosen.append(sizes[choice])
        updates += 1
        if updates % 10 == 0:
            longest, chosen = min(1.1 * max(chosen), LONGEST), []
    return coef
