"""Output perturbation, objective perturbation and PrivGene: accuracy, and time next to numpy.

    python bench/bench_output.py [--data adult bank] [--repetitions 5] [--rounds 5] [--epsilons 0.1 0.4 1.6]

Accuracy on random 80/20 splits, delta = 1e-8, neighbours by adding or removing a record. Times are ratios
numpy / dperm of whole fits with the same settings, the median over rounds in which both sides take turns.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.model_selection import train_test_split

import dperm
from dperm.accounting import gdp_mu
from dperm.algorithms import (
    objective_perturbation,
    output_perturbation_gd,
    output_perturbation_minimum,
    privgene,
)
from dperm.algorithms.privgene import PrivGeneSchedule
from measuring import command_line, show_heading, show_row, times_in_turn
from problems import twin

STEPS, GENERATIONS = 50, 3


def objective_of(data, X: np.ndarray, y: np.ndarray, l2: float = 0.0) -> dperm.Objective:
    """With a ridge term on every weight."""
    return dperm.Objective(
        "logistic", X, y, l2=l2, row_norm=data.row_norm, fit_intercept=True, penalize_intercept=True
    )


def fits(data, X: np.ndarray, y: np.ndarray, delta: float) -> dict[str, Callable[[float], np.ndarray]]:
    """Weights for an epsilon, by algorithm; defaults wherever there are any."""
    plain = objective_of(data, X, y)

    def minimum(epsilon: float) -> np.ndarray:
        # Ridge strength from public numbers: least sum of bias l2 D^2/2 at D = 20/R and cost of the noise.
        signal = len(X) * gdp_mu(epsilon, delta)
        l2 = data.row_norm**2 * (800.0 * signal**2) ** (-1 / 3)
        return output_perturbation_minimum(objective_of(data, X, y, l2), epsilon, delta).coef

    return {
        "output_perturbation_gd": lambda epsilon: output_perturbation_gd(plain, epsilon, delta).coef,
        "output_perturbation_gd, delta = 0": lambda epsilon: output_perturbation_gd(plain, epsilon, 0.0).coef,
        "output_perturbation_minimum": minimum,
        "objective_perturbation": lambda epsilon: objective_perturbation(plain, epsilon, delta).coef,
        "objective_perturbation, delta = 0": lambda epsilon: objective_perturbation(plain, epsilon, 0.0).coef,
        "privgene": lambda epsilon: privgene(plain, epsilon, delta).coef,
    }


def print_accuracy(name: str, repetitions: int, epsilons: list[float], delta: float) -> None:
    """One row per algorithm."""
    data = dperm.datasets.load(name, dense=True)
    results: dict[str, list[list[float]]] = {}
    for repetition in range(repetitions):
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=repetition)
        for algorithm, fit in fits(data, X, y, delta).items():
            coefs = [fit(epsilon) for epsilon in epsilons]
            right = [np.sign(X_test @ coef[:-1] + coef[-1]) == y_test for coef in coefs]
            results.setdefault(algorithm, []).append([100.0 * share.mean() for share in right])
    show_heading(f"\n{name}: mean (standard deviation) of {repetitions} splits, %", "algorithm", epsilons)
    for algorithm, values in results.items():
        show_row(algorithm, values)


def numpy_minimum(rows: np.ndarray, y: np.ndarray, l2: float, linear: np.ndarray) -> np.ndarray:
    """The perturbed minimiser by SciPy's L-BFGS, to the gradient norm that the certificate asks for."""

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        m = y * (rows @ w)
        value = np.logaddexp(0.0, -m).mean() + l2 / 2 * w @ w + linear @ w
        return value, (-y * expit(-m)) @ rows / len(rows) + l2 * w + linear

    options = {"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-16, "maxcor": 20}
    return minimize(
        value_and_gradient, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options=options
    ).x


def print_times(name: str, rounds: int) -> None:
    """Median of the ratios numpy / dperm."""
    data = dperm.datasets.load(name, dense=True)
    objective = objective_of(data, data.X, data.y)
    rows = twin.scaled_rows(data.X, data.row_norm, True)
    rng = np.random.default_rng(0)
    l2 = data.row_norm**2 / len(rows)
    linear = 4.0 * data.row_norm / len(rows) * rng.normal(size=rows.shape[1])
    schedule = PrivGeneSchedule(generations=GENERATIONS, stride=0.5, decay=0.95, entry_bound=1.0)
    pairs = {
        f"output_perturbation_gd, {STEPS} steps": (
            lambda: output_perturbation_gd(objective, 1.0, 1e-8, steps=STEPS, step_size=0.4),
            lambda: twin.output_perturbation_gd(rows, data.y, STEPS, 0.4, 0.1, rng),
        ),
        "objective_perturbation": (
            lambda: objective_perturbation(objective, 1.0, 1e-8),
            lambda: numpy_minimum(rows, data.y, l2, linear),
        ),
        f"privgene, {GENERATIONS} generations": (
            lambda: privgene(objective, 1.0, 1e-8, generations=GENERATIONS, stride=0.5, decay=0.95),
            lambda: twin.privgene(rows, data.y, 1.0, schedule, rng),
        ),
    }
    print(f"\n{name}: {len(rows)} x {rows.shape[1]}; time of dperm, time of numpy over it ({rounds} rounds)")
    for label, sides in pairs.items():
        times = times_in_turn(dict(zip(("dperm", "numpy"), sides, strict=True)), rounds)
        ratio = np.median(times["numpy"] / times["dperm"])
        print(f"| {label} | {1e3 * np.median(times['dperm']):.0f} ms | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    arguments = command_line(
        __doc__, data=["adult", "bank"], repetitions=5, rounds=5, epsilons=[0.1, 0.4, 1.6], delta=1e-8
    )
    for name in arguments.data:
        if arguments.repetitions:
            print_accuracy(name, arguments.repetitions, arguments.epsilons, arguments.delta)
        print_times(name, arguments.rounds)
