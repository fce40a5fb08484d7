"""CPU seconds: time of a step times the number of steps."""

import math
import time

from dperm.algorithms import output_perturbation_gd
from papers.learning import objective
from papers.tables.zhang2017_table3 import BATCH, DELTA, cube, own_schedule, schedule, sgd


def measure(mode: str, *, data: str, method: str, l2: float, epsilon: float, what: str = "seconds") -> float:
    """Paper: the printed T, for SGD ``n^2/50``. Default: `smooth_erm_schedule`. `what` may be "steps"."""
    if method == "sgd":
        if mode == "default":
            return None
        steps, measured = objective(data, cube(data), l2).n_public ** 2 // BATCH, 1000
    else:
        steps = schedule(data, l2, epsilon)[0] if mode == "paper" else own_schedule(data, l2, epsilon)
        measured = 20
    if what == "steps":
        return float(steps)
    start = time.process_time()
    if method == "sgd":
        sgd(data, l2, epsilon, 1.0, 0, measured)
    else:
        terms = {"steps": measured, "step_size": schedule(data, l2, epsilon)[1], "neighbors": "replace_one"}
        output_perturbation_gd(
            objective(data, cube(data), l2), epsilon, DELTA, random_state=0, clip=math.inf, **terms
        )
    return (time.process_time() - start) * steps / measured
