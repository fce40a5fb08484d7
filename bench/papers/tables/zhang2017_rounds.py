"""Gradients of records that are computed."""

from dperm.accounting.paper import smooth_erm_schedule


def measure(mode: str, *, n: int, d: int, l2: float, epsilon: float, delta: float, distance: float) -> float:
    """Full-batch descent of as many steps as Theorem 2 or 3 asks, for the logistic loss on rows of norm 1."""
    run = {"n_samples": n, "dimension": d, "lipschitz": 1.0, "beta": 0.25, "distance": distance, "l2": l2}
    return float(n) * smooth_erm_schedule(epsilon, delta, **run).steps


def expected(*, n: int, **_: float) -> float:
    """``n^2`` steps of one record: Bassily, Smith and Thakurta 2014."""
    return float(n) ** 2
