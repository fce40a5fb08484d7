"""Thread counts, forked children, process pools, and many threads that share objects."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from dperm import LogisticRegression, Objective, algorithms, build_info
from dperm._kernels import row_kernels, samplers
from dperm._kernels.threads import machine_threads, threads_for
from dperm.accounting import Ledger, open_ledger
from dperm.errors import BudgetExceededError
from dperm.mechanisms.random_source import random_bits
from dperm.objective.gradients import clipped_gradient_sum
from dperm.objective.losses import clipped_loss_sums
from reference import awkward_arrays

LARGE = 1 << 20  # entries of a matrix that is large enough for many threads
needs_openmp = pytest.mark.skipif(not row_kernels.threads_compiled_in(), reason="a build without threads")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def run_python(program, **environment):
    """The words that a program prints in a new Python process; fails if it hangs."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# -- numbers of threads ------------------------------------------------------------------------------


def test_small_work_uses_one_thread():
    assert threads_for(4, 10) == 1


@needs_openmp
def test_explicit_thread_counts_are_used():
    assert threads_for(3, LARGE) == 3
    assert threads_for(None, LARGE) == threads_for(-1, LARGE) == machine_threads() == build_info()["threads"]


@needs_openmp
def test_threadpoolctl_limits_are_respected():
    with threadpool_limits(1):
        assert machine_threads() == build_info()["threads"] == 1
        assert threads_for(None, LARGE) == threads_for(-1, LARGE) == 1
    with threadpool_limits(64):
        assert machine_threads() <= (os.cpu_count() or 1)  # an upper limit only


PRINT_THREADS = "import dperm; print(dperm.build_info()['threads'])"


@needs_openmp
@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "LOKY_MAX_CPU_COUNT"])
def test_environment_variables_are_respected(variable):
    assert run_python(PRINT_THREADS, **{variable: "1"}) == ["1"]


@needs_openmp
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this platform")
def test_affinity_is_respected_whenever_it_changes():
    one_core = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    assert run_python(one_core + PRINT_THREADS) == ["1"]
    assert run_python("import dperm; dperm.build_info(); " + one_core + PRINT_THREADS) == ["1"]


NEW_THREADS = """
import os
import numpy as np
from threadpoolctl import threadpool_limits
from dperm import Objective
from dperm.objective.gradients import clipped_gradient_sum

x = np.random.default_rng(0).normal(size=(40_000, 8))
y = np.sign(x[:, 0])

def new_threads(n_threads):
    before = set(os.listdir("/proc/self/task"))
    clipped_gradient_sum(Objective("logistic", x, y, n_threads=n_threads), np.ones(8), 1.0)
    return len(set(os.listdir("/proc/self/task")) - before)

with threadpool_limits(1):
    print(new_threads(None))
print(new_threads(1))
print(new_threads(3))
"""


END_THREADS = """
import os, numpy as np
from dperm import Objective
from dperm.objective.gradients import clipped_gradient_sum
from dperm._kernels.row_kernels import end_openmp_threads
objective = Objective("logistic", np.ones((20_000, 100)), np.ones(20_000), n_threads=3)
for _ in range(2):
    total = clipped_gradient_sum(objective, np.zeros(100), 1.0)._integers
    print(int(total[0]), len(os.listdir("/proc/self/task")))
    end_openmp_threads()
    print(len(os.listdir("/proc/self/task")))
"""


@needs_openmp
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_openmp_threads_can_be_ended_and_restart():
    total, running, left, again, restarted, at_last = map(int, run_python(END_THREADS))
    assert total == again != 0
    assert running == restarted == left + 2
    assert at_last == left


@needs_openmp
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_limits_hold_for_the_threads_that_are_started():
    assert run_python(NEW_THREADS) == ["0", "0", "2"]


# -- forked children and process pools ---------------------------------------------------------------


def in_child(function, fork):
    """The 64-bit words that the function returns in a forked child."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(writer, np.asarray(function(), dtype=np.uint64).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = np.frombuffer(pipe.read(), np.uint64)
    os.waitpid(child, 0)
    return answer


def fork_in_c():
    """Fork as a C library would: Python's own hooks do not run."""
    return ctypes.PyDLL(None).fork()


forks = pytest.mark.parametrize("fork", [getattr(os, "fork", None), fork_in_c], ids=["os", "C"])


@needs_fork
@forks
def test_process_marks_differ_even_with_equal_process_ids(fork):
    """In another PID namespace a child may have the process id of its parent."""
    here = samplers.process_mark()
    child, grandchild = in_child(
        lambda: [samplers.process_mark(), *in_child(lambda: [samplers.process_mark()], fork)], fork
    ).tolist()
    forks_counted = [mark >> 32 for mark in (here, child, grandchild)]
    assert forks_counted == [forks_counted[0] + i for i in range(3)]
    assert samplers.process_mark() == here
    assert here & 0xFFFFFFFF == os.getpid()


@needs_fork
@forks
def test_noise_is_not_repeated_in_children(fork):
    bits = random_bits()
    samplers.uniform_words(bits, 3)  # leaves bytes in the buffer
    draw = lambda: samplers.uniform_words(bits, 200)  # noqa: E731
    streams = [
        in_child(draw, fork),
        in_child(draw, fork),
        draw(),
        in_child(lambda: in_child(draw, fork), fork),
    ]
    words = np.concatenate(streams)
    assert words.size == 800
    assert np.unique(words).size == 800


@needs_fork
@forks
def test_forked_children_use_one_thread(fork):
    Objective("logistic", *data(20_000), n_threads=2)  # the parent has used threads
    assert in_child(lambda: [threads_for(4, LARGE), machine_threads()], fork).tolist() == [1, 1]
    assert threads_for(4, LARGE) == (4 if row_kernels.threads_compiled_in() else 1)


def data(n=6_000, d=8):
    x, y, _, _ = awkward_arrays.ordinary(n, d, np.float64)
    return x, np.where(y > 0, 1, -1)


def searched(n_jobs, ledger=None):
    """Scores of a grid search over seeded private fits that are large enough for several threads."""
    settings = {"solver": "noisy_gd", "solver_options": {"steps": 20}, "random_state": 5, "ledger": ledger}
    model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[-1, 1], **settings)
    search = GridSearchCV(model, {"l2": [0.0, 0.1]}, cv=2, n_jobs=n_jobs)
    return search.fit(*data(20_000)).cv_results_["mean_test_score"].tolist()


@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
@needs_fork
@pytest.mark.parametrize(
    "backend", [pytest.param("loky", marks=pytest.mark.slow), "multiprocessing", "threading"]
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_grid_search_in_every_kind_of_pool(backend):
    expected = searched(1)  # uses threads in this process
    with joblib.parallel_config(backend, n_jobs=2):
        assert searched(2) == expected


@pytest.mark.filterwarnings("ignore:.*dperm.PrivateSearch chooses")
@pytest.mark.slow
def test_a_durable_ledger_works_in_a_process_pool(tmp_path):
    ledger = open_ledger(
        f"sqlite:///{tmp_path / 'budget.db'}", "data", epsilon=30.0, delta=1e-3, allow_seeded=True
    )
    with joblib.parallel_config("loky", n_jobs=2):
        searched(2, ledger)
    assert len(ledger.history()) >= 5  # two settings on two folds, and the best one on all


def threads_of_a_pass():
    return build_info()["threads"]


@needs_openmp
@pytest.mark.slow
def test_joblib_limits_threads_of_its_workers():
    for inner in [1, 2]:
        with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=inner):
            counts = joblib.Parallel()(joblib.delayed(threads_of_a_pass)() for _ in range(2))
        assert counts == [min(inner, machine_threads())] * 2


def child_of_a_pool(seed):
    objective = Objective("logistic", *data(20_000), n_threads=2)
    return algorithms.noisy_gd(objective, 1.0, 1e-6, steps=5, random_state=seed).coef.tolist()


@needs_fork
@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(name, marks=pytest.mark.slow) for name in ("spawn", "forkserver"))]
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fits_in_processes_of_every_kind(method):
    expected = child_of_a_pool(3)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(child_of_a_pool, [3, 3]).get(timeout=120) == [expected, expected]


# -- many threads on the same objects ----------------------------------------------------------------


def in_threads(function, arguments, n_threads=6):
    """Results of calls that start at the same time."""
    start = threading.Barrier(n_threads)

    def call(argument):
        start.wait()
        return function(argument)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(call, arguments))


@pytest.mark.parametrize("algorithm", [algorithms.noisy_gd, algorithms.dp_agd, algorithms.whitened_gd])
def test_fits_share_an_objective_and_a_ledger(algorithm):
    objective = Objective("logistic", *data(), n_threads=2)
    seeds = range(6)

    def fit(seed, ledger):
        return algorithm(objective, 0.5, 1e-6, random_state=seed, ledger=ledger).coef.tolist()

    alone, shared = Ledger(50.0, 1e-3, allow_seeded=True), Ledger(50.0, 1e-3, allow_seeded=True)
    expected = [fit(seed, alone) for seed in seeds]
    assert in_threads(lambda seed: fit(seed, shared), seeds) == expected
    assert shared.spent == pytest.approx(alone.spent, rel=1e-9)
    assert len(shared.history()) == len(alone.history())


def test_cached_predictions_are_used_for_their_own_weights_only():
    """A line search reuses predictions of a gradient pass, which other threads overwrite meanwhile."""
    objective = Objective("logistic", *data(), fit_intercept=True)
    rng = np.random.default_rng(2)
    weights, direction = rng.normal(size=(12, 9)), rng.normal(size=9)

    def sums(w):
        line = []
        for _ in range(10):
            gradient = clipped_gradient_sum(objective, w, 0.5)._integers.tolist()
            line.append(clipped_loss_sums(objective, w, direction, [0.0, 0.5, 1.0], 1.0)._integers.tolist())
        return gradient, line

    assert in_threads(sums, weights) == [sums(w) for w in weights]


def test_threads_never_overspend_a_budget():
    objective = Objective("logistic", *data(500))
    ledger = Ledger(1.0, 1e-5, allow_seeded=True)

    def fit(seed):
        try:
            algorithms.noisy_gd(objective, 0.4, 1e-6, steps=3, random_state=seed, ledger=ledger)
        except BudgetExceededError:
            return 0
        return 1

    accepted = sum(in_threads(fit, range(12)))
    assert accepted == len(ledger.history())
    assert ledger.spent <= 1.0
    assert 1 <= accepted < 12


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@needs_fork
def test_a_fork_during_a_pass_of_another_thread():
    objective = Objective("logistic", *data(20_000), n_threads=2)
    w = np.ones(8)
    expected = clipped_gradient_sum(objective, w, 0.5)._integers
    stop = threading.Event()

    def passes():
        while not stop.is_set():
            clipped_gradient_sum(objective, w, 0.5)

    thread = threading.Thread(target=passes)
    thread.start()
    try:
        for _ in range(5):
            sums = in_child(
                lambda: clipped_gradient_sum(objective, w, 0.5)._integers.astype(np.uint64), os.fork
            )
            assert np.array_equal(sums, expected.astype(np.uint64))
    finally:
        stop.set()
        thread.join()
