"""dperm compared with its peers: the same records, epsilon and delta; accuracy, time, memory.

    python bench/peers/run.py [--peers NAME ...] [--problems adult bank line] [--splits 3]

Each peer runs in a virtual environment of its own with the packages that `peers.toml` names, created at the
first run in the folder --environments. A peer that cannot be installed, or fails, gets a row with its error.
dperm, scikit-learn and numpy run in this environment. Peers run one after the other. Each fit is timed after
a warm-up on a few records.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

import numpy as np
import platformdirs

import dperm

HERE = Path(__file__).parent
PEERS = tomllib.loads((HERE / "peers.toml").read_text())
LIMIT = 1200  # seconds for one fit including imports


class PeerError(RuntimeError):
    """The error message of a peer that failed."""


def line(n=20_000):
    """Generated data for a regression on one column, which every peer with a regression supports."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    return x[:, None], np.clip(1.2 * x - 0.6 + rng.normal(scale=0.2, size=n), -1.0, 1.0), 1.0


def problem(name):
    """Rows, labels 0 and 1 or real targets, and a public bound on the norm of a row."""
    if name == "line":
        return line()
    data = dperm.datasets.load(name)
    without_intercept = math.sqrt(data.row_norm**2 - 1.0)
    return data.X.to_dense("float64"), (data.y > 0).astype(float), without_intercept


def splits(name, count, folder):
    """Write random 80/20 splits of a problem to files."""
    X, y, row_norm = problem(name)
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [4 * len(y) // 5])
        path = folder / f"{name}-{seed}.npz"
        np.savez(path, X=X[train], y=y[train], X_test=X[test], y_test=y[test], row_norm=row_norm)
        yield path


def interpreter(name, environments):
    """The Python of a peer, whose environment is created if necessary."""
    packages = PEERS[name].get("packages")
    if packages is None:
        return Path(sys.executable)
    python = environments / name / "bin" / "python"
    done = environments / name / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != packages:
        print(f"{name}: installing {', '.join(packages)}", flush=True)
        venv.create(environments / name, with_pip=True, clear=True)
        index = PEERS[name].get("index")
        extra = ["--extra-index-url", index] if index else []
        call([python, "-m", "pip", "install", "--quiet", *extra, *packages])
        done.write_text(json.dumps(packages))
    return python


def call(command):
    """Run a program; PeerError with the last line of its output if it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise PeerError(f"took more than {LIMIT} s") from None
    if done.returncode:
        raise PeerError((done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1])


def fits(name, python, files, epsilon, delta, folder):
    """Results of one peer on all splits, for the setting with the best mean score."""
    script = HERE / f"fit_{name.replace('-', '_')}.py"
    found = []
    for settings in PEERS[name].get("settings", [{}]):
        results = []
        for file in files:
            target = folder / "result.json"
            call([python, script, file, target, epsilon, delta, json.dumps(settings)])
            results.append(json.loads(target.read_text()))
        found.append(results)
    return max(found, key=lambda results: np.mean([each["score"] for each in results]))


def middle(results, what):
    """Median over the splits."""
    return float(np.median([each[what] for each in results]))


def row(title, results, ours):
    """A line of the table: score, time, CPU time absolute and relative to ours, memory added by the fit."""
    scores = 100.0 * np.array([each["score"] for each in results])
    seconds, cpu = middle(results, "seconds"), middle(results, "cpu_seconds")
    cells = [f"{scores.mean():.1f} ± {scores.std():.1f}", f"{seconds:.2f}", f"{cpu:.2f}", f"{cpu / ours:.2g}"]
    return f"| {title} | {' | '.join(cells)} | {middle(results, 'added_memory'):.1f} |"


def table(name, peers, epsilon, options, folder):
    """Print the table for one problem at one epsilon."""
    files = list(splits(name, options.splits, folder))
    what = "R^2, %" if name == "line" else "accuracy, %"
    heading = f"{name}, epsilon = {epsilon:g}, delta = {options.delta:g}, {options.splits} splits"
    columns = ["", what, "seconds", "CPU seconds", "over dperm", "memory over data"]
    print(f"\n### {heading}\n\n| {' | '.join(columns)} |\n|---|---|---|---|---|---|", flush=True)
    ours = None
    for peer in peers:
        if name not in PEERS[peer].get("problems", ["adult", "bank"]):
            continue
        try:
            results = fits(
                peer, interpreter(peer, options.environments), files, epsilon, options.delta, folder
            )
            ours = ours or middle(results, "cpu_seconds")
            print(row(PEERS[peer]["title"], results, ours), flush=True)
        except PeerError as error:
            print(f"| {PEERS[peer]['title']} | failed: {error} | | | | |", flush=True)


def arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument(
        "--problems", nargs="+", choices=["adult", "bank", "line"], default=["adult", "bank", "line"]
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.4, 1.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument(
        "--environments", type=Path, default=Path(platformdirs.user_cache_dir("dperm")) / "peers"
    )
    return parser.parse_args()


def main():
    """Measure and print."""
    options = arguments()
    # dperm is first: other times are relative to it.
    peers = ["dperm", *(name for name in options.peers if name != "dperm")]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            for epsilon in options.epsilons:
                table(name, peers, epsilon, options, Path(folder))


if __name__ == "__main__":
    main()
