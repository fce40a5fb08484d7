"""Certified lower bounds on epsilon, compared with the claims.

    python bench/audit_bounds.py [--trainings 10000] [--epsilon 1] [--delta 1e-5]

Each row has the claim, the bounds that transcripts (or final weights) certify for a mu-GDP claim, the bound
from the same observations by Clopper-Pearson intervals alone, and the wall and CPU time of the trainings. If
an algorithm leaks all that it claims, one bound in twenty exceeds the claim at 95 % confidence, one in a
thousand at 99.9 %. The neighbours are those of ``worst_case_neighbours``: one record is added, along an axis
of its own.
"""

import functools
import resource
import time
from collections.abc import Callable

from joblib.externals.loky import get_reusable_executor

from dperm import audit
from dperm.algorithms import dp_agd, majority, noisy_gd
from dperm.audit.trainings import observe
from dperm.objective.objective import Objective
from measuring import command_line

CLIP = 0.01  # far below the longest gradient: the record's contribution has this norm at any weights

ROWS = [
    ("noisy_gd", noisy_gd, {"clip": CLIP}, "transcript"),
    ("noisy_gd, default clip", noisy_gd, {}, "transcript"),
    ("noisy_gd", noisy_gd, {"clip": CLIP}, "weights"),
    ("noisy_gd, 20 steps", noisy_gd, {"clip": CLIP, "steps": 20}, "transcript"),
    ("dp_agd", dp_agd, {"clip": CLIP}, "transcript"),
    ("majority", majority, {}, "transcript"),
]


def fit(algorithm: Callable, epsilon: float, delta: float, settings: dict, objective: Objective, seed: int):
    """One training, with the seed last."""
    return algorithm(objective, epsilon, delta, random_state=seed, **settings)


def processor_seconds() -> float:
    """CPU time of this process and its finished children."""
    get_reusable_executor().shutdown(wait=True)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Print one row per algorithm and observation."""
    arguments = command_line(
        __doc__, trainings=10_000, epsilon=1.0, delta=1e-5, n=1000, d=10, only=[name for name, *_ in ROWS]
    )
    print(
        f"{arguments.trainings} trainings, n = {arguments.n}, d = {arguments.d}, delta = {arguments.delta:g}"
    )
    print(
        "| algorithm | observed | claim | bound, 95 % | bound, 99.9 % | Clopper-Pearson, 95 % | gain | "
        "seconds | CPU seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, algorithm, settings, observed in ROWS:
        if not set(arguments.only) & {name, algorithm.__name__}:
            continue
        pair = audit.worst_case_neighbours(n=arguments.n, d=arguments.d, fit_intercept=algorithm is majority)
        run = functools.partial(fit, algorithm, arguments.epsilon, arguments.delta, settings)
        watch = audit.Transcript(run, pair)
        if observed == "weights":
            watch = audit.Coefficients(run)
        start, before = time.perf_counter(), processor_seconds()
        observations = observe(
            watch, pair, arguments.trainings // 2, n_jobs=None, progress=False, random_state=1
        )
        seconds = time.perf_counter() - start
        processors = processor_seconds() - before
        bound, sure, loose = (
            audit.certify_observations(
                *observations, delta=arguments.delta, confidence=confidence, method=method
            ).epsilon
            for method, confidence in [("gdp", 0.95), ("gdp", 0.999), ("clopper_pearson", 0.95)]
        )
        gain = f"{bound / loose:.1f}" if loose > 0 else "-"
        print(
            f"| {name} | {observed} | {arguments.epsilon:g} | {bound:.3f} | {sure:.3f} | {loose:.3f} | "
            f"{gain} | {seconds:.1f} | {processors:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
