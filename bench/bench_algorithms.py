"""Whole fits of every algorithm on Adult, compared with plain numpy twins that take the same steps.

    python bench/bench_algorithms.py [--rounds 3] [--only dp_agd noisy_gd] [--records 48842]

Fits have default settings at epsilon 0.4, delta 1e-8, unless the table says otherwise. The twins
(tests/reference) sum in floating point, draw numpy's noise, and do no accounting; they are given the steps,
noise and clip that the fit chose. The two are timed alternately; the median of the rounds' ratios is shown.
Runs of n^2 single-record steps (rrpsgd) are in bench_sgd.py, softmax is in bench_softmax.py.
"""

import argparse
import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import dperm
from dperm import Objective, algorithms
from dperm.accounting import gdp_mu
from dperm.algorithms.noisy_gd import noisy_gd_schedule
from dperm.algorithms.preconditioned_gd import preconditioned_gd_schedule
from dperm.algorithms.privgene import PrivGeneSchedule
from dperm.algorithms.problem import PublicProblem
from dperm.losses import Hinge, SquaredError
from measuring import Call, command_line, ratio, seconds
from problems import dp_agd_twin
from reference import numpy_algorithms as twin
from reference import numpy_sgd, sgd_twin

EPSILON, DELTA = 0.4, 1e-8
SINGLE_STEPS = 20_000
BATCH, BATCHES = 512, 200


@functools.cache
def adult(records: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Dense matrix, labels, the scaled rows with the intercept's 1, and the bound on their norm."""
    data = dperm.datasets.load("adult", dense=True)
    X = np.ascontiguousarray(data.X[:records])
    return X, data.y[:records], twin.scaled_rows(X, data.row_norm, True), data.row_norm


def objective(records: int, loss: object = "logistic", **keywords: object) -> Objective:
    """An objective on the same records."""
    X, y, _, row_norm = adult(records)
    return Objective(loss, X, y, row_norm=row_norm, fit_intercept=True, **keywords)


def full_batch(records: int) -> dict[str, tuple[Call, Call]]:
    """Algorithms that read all records in every step."""
    X, y, rows, _ = adult(records)
    obj = objective(records)
    rng = np.random.default_rng()
    mu = gdp_mu(EPSILON, DELTA)
    facts = PublicProblem(obj.n_public, obj.dimension, mu, obj.loss, obj.row_norm)
    descent = noisy_gd_schedule(facts)
    white = preconditioned_gd_schedule(facts)
    genes = PrivGeneSchedule(
        generations=30, stride=0.4, decay=0.97, entry_bound=obj.row_norm, intercept_stride=1.0
    )

    def whitened() -> object:
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        return twin.preconditioned_gd(
            rows, y, (vectors / np.sqrt(values + 0.01)) @ vectors.T, white.clip, white
        )

    return {
        "noisy_gd": (
            lambda: algorithms.noisy_gd(obj, EPSILON, DELTA, learn_scales=False),
            lambda: twin.noisy_gd(rows, y, math.sqrt(descent.steps) / mu, descent, rng),
        ),
        "preconditioned_gd": (lambda: algorithms.preconditioned_gd(obj, EPSILON, DELTA), whitened),
        "dp_agd (zCDP)": (
            lambda: algorithms.dp_agd(obj, EPSILON, DELTA, accountant="zcdp", learn_scales=False),
            dp_agd_twin(obj, X, y, EPSILON, DELTA),
        ),
        "output_perturbation_gd, 100 steps": (
            lambda: algorithms.output_perturbation_gd(obj, EPSILON, DELTA, steps=100, step_size=0.1),
            lambda: twin.output_perturbation_gd(rows, y, 100, 0.1, 0.1, rng),
        ),
        "dp_newton, 20 steps": (
            lambda: algorithms.dp_newton(obj, EPSILON, DELTA, steps=20, shift=0.1),
            lambda: twin.newton(rows, y, 20, 0.1),
        ),
        "privgene, 30 generations": (
            lambda: algorithms.privgene(obj, EPSILON, DELTA, **dataclasses.asdict(genes)),
            lambda: twin.privgene(rows, y, 1.0, genes, rng),
        ),
    }


def minimisers(records: int) -> dict[str, tuple[Call, Call]]:
    """Algorithms that release a minimiser, and regression from sufficient statistics."""
    _, y, rows, row_norm = adult(records)
    ridge = 0.01
    strong = objective(records, l2=ridge, penalize_intercept=True)
    squares = objective(records, SquaredError(1.0))
    linear = np.random.default_rng(0).normal(size=rows.shape[1]) / len(rows)

    def minimum(tilt: np.ndarray) -> object:
        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            m = y * (rows @ w)
            value = np.logaddexp(0.0, -m).mean() + 0.5 * ridge * w @ w + tilt @ w
            return value, (-y * expit(-m)) @ rows / len(rows) + ridge * w + tilt

        return minimize(value_and_gradient, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x

    return {
        "objective_perturbation": (
            lambda: algorithms.objective_perturbation(strong, EPSILON, DELTA),
            lambda: minimum(linear),
        ),
        "output_perturbation_minimum": (
            lambda: algorithms.output_perturbation_minimum(strong, EPSILON, DELTA),
            lambda: minimum(0.0 * linear),
        ),
        "sufficient_statistics": (
            lambda: algorithms.sufficient_statistics(squares, EPSILON, DELTA),
            lambda: twin.least_squares_by_statistics(rows, y, 0.0, 0.0, 0.01 * row_norm**2),
        ),
    }


def mini_batch(records: int) -> dict[str, tuple[Call, Call]]:
    """Algorithms on batches; the twins draw batches with numpy permutations and Bernoulli masks."""
    X, y, rows, row_norm = adult(records)
    n, d = rows.shape
    obj, hinge = objective(records), objective(records, "hinge")
    rng = np.random.default_rng()
    schedule = argparse.Namespace(clip=0.5, batch_size=BATCH, tail=0.5)

    def poisson(smooth: Callable[[np.ndarray], np.ndarray], move: object) -> object:
        batches = (np.flatnonzero(rng.random(n) < BATCH / n) for _ in range(BATCHES))
        noise = (rng.normal(scale=2.0, size=d) for _ in range(BATCHES))
        return numpy_sgd.minibatch_descent(rows, y, list(batches), list(noise), schedule, move, smooth=smooth)

    def single(order: np.ndarray, noisy: bool) -> object:
        noise = rng.normal(size=(len(order), d)) if noisy else None
        steps = np.full(len(order), 0.01)
        scaled = {"row_norm": row_norm, "fit_intercept": True}
        return sgd_twin.sgd(X, y, Hinge(), order[:, None], steps, noise=noise, **scaled)

    batches = {"batch_size": BATCH, "steps": BATCHES, "clip": 0.5, "step_size": 0.5}
    ones = {"batch_size": 1, "step_size": 0.01, "neighbors": "replace_one"}
    return {
        "dp_sgd, Poisson 512": (
            lambda: algorithms.dp_sgd(obj, EPSILON, DELTA, momentum=0.9, **batches),
            lambda: poisson(lambda g: g, numpy_sgd.heavy_ball(0.5, 0.9)),
        ),
        "dp_lssgd, Poisson 512": (
            lambda: algorithms.dp_lssgd(obj, EPSILON, DELTA, **batches),
            lambda: poisson(lambda g: numpy_sgd.smoothing_by_fft(g, 1.0), numpy_sgd.heavy_ball(0.5, 0.0)),
        ),
        "dp_lsadam, Poisson 512": (
            lambda: algorithms.dp_lsadam(obj, EPSILON, DELTA, **{**batches, "step_size": 0.05}),
            lambda: poisson(lambda g: numpy_sgd.smoothing_by_fft(g, 1.0), numpy_sgd.adam(0.05)),
        ),
        "dp_sgd_gradient, 20,000 single steps": (
            lambda: algorithms.dp_sgd_gradient(
                hinge, 1.0, DELTA, noise="float", radius=10.0, steps=SINGLE_STEPS, **ones
            ),
            lambda: single(rng.integers(n, size=SINGLE_STEPS), noisy=True),
        ),
        "dp_sgd_output, one pass of single steps": (
            lambda: algorithms.dp_sgd_output(hinge, 1.0, DELTA, passes=1, **ones),
            lambda: single(rng.permutation(n), noisy=False),
        ),
    }


if __name__ == "__main__":
    arguments = command_line(__doc__, rounds=3, records=48_842, only=[""])  # prefixes of names
    print("| algorithm | dperm, s | numpy twin / dperm |\n|---|---|---|")
    for group in (full_batch, minimisers, mini_batch):
        for name, (fit, numpy_fit) in group(arguments.records).items():
            if name.startswith(tuple(arguments.only)):
                speed = ratio(numpy_fit, fit, arguments.rounds)
                print(f"| {name} | {seconds(fit):.3f} | {speed:.1f} |", flush=True)
