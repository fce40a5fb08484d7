"""What every peer's program does around its fit: read the problem, time the fit, write the results.

Needs only numpy, because each peer runs in an environment of its own:

    python fit_PEER.py PROBLEM.npz RESULT.json EPSILON DELTA SETTINGS-AS-JSON
"""

import json
import os
import sys
import time
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Training records, and what is public about them.

    `y` is 0 or 1, or a number in [-1, 1] for a regression. No row is longer than `row_norm`, which excludes
    the intercept.
    """

    X: np.ndarray
    y: np.ndarray
    row_norm: float
    epsilon: float
    delta: float

    @property
    def n(self):
        return len(self.y)

    def unit_rows(self, X):
        """Rows scaled to the unit ball, for methods that clip gradients at norm 1."""
        return (X / self.row_norm).astype(np.float32)


def memory(what):
    """A value of /proc/self/status in bytes, or 0 if there is no such file."""
    if not os.path.exists("/proc/self/status"):
        return 0
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


def reset_peak():
    """Reset the peak of memory; returns what is used now, in bytes."""
    if os.path.exists("/proc/self/clear_refs"):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    return memory("VmRSS")


def run(fit):
    """Run `fit(problem, **settings)`, which returns a function that predicts from rows."""
    source, target, epsilon, delta, settings = sys.argv[1:6]
    data = np.load(source)
    problem = Problem(data["X"], data["y"], float(data["row_norm"]), float(epsilon), float(delta))
    few = slice(None, None, max(1, problem.n // 2000))
    fit(replace(problem, X=problem.X[few], y=problem.y[few]), **json.loads(settings))  # warm-up: imports
    before, start, cpu = reset_peak(), time.perf_counter(), time.process_time()
    predict = fit(problem, **json.loads(settings))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    added = memory("VmHWM") - before
    predicted = np.asarray(predict(data["X_test"])).ravel()
    if set(np.unique(data["y"])) <= {0.0, 1.0}:
        score = float(np.mean((predicted > 0.5) == data["y_test"]))
    else:
        score = float(1.0 - np.mean((predicted - data["y_test"]) ** 2) / np.var(data["y_test"]))
    with open(target, "w") as file:
        used = {"seconds": seconds, "cpu_seconds": cpu_seconds, "added_memory": added / problem.X.nbytes}
        json.dump({"score": score, **used}, file)
