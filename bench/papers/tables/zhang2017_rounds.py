"""Gradients of records that are computed."""

from dperm.accounting.paper import smooth_erm_schedule


def measure(mode: str, *, n: int, d: int, l2: float, epsilon: float, delta: float, distance: float) -> float:
    """Full-batch descent as long as Theorem 2 or 3 wants, R = 1, the logistic loss."""
    run = {"n_samples": n, "dimension": d, "lipschitz": 1.0, "beta": 0.25, "distance": distance, "l2": l2}
    return float(n) * smooth_erm_schedule(epsilon, delta, **run).steps


def expected(*, n: int, **_: float) -> float:
    """``n^2`` steps of one record: Bassily, Smith and Thakurta 2014."""
    return float(n) ** 2
