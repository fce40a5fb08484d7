"""A gradient pass over Parquet files compared with merely reading them, in one run.

    python bench/bench_streams.py [--rows 2000000] [--columns 60] [--rounds 9] [--folder DIR]

The fastest of pyarrow's own scans of all columns counts; two threads on both sides. Files are temporary.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dperm import Objective
from dperm.data import scan_parquet
from dperm.objective.gradients import clipped_gradient_sum
from measuring import command_line, times_in_turn
from problems import CLIP

THREADS = 2


def drain(batches: object) -> int:
    """Read all batches and keep none; returns the number of records."""
    return sum(batch.num_rows for batch in batches)


def compare(name: str, path: Path, columns: int, rounds: int) -> None:
    """Speed relative to the fastest scan, median of the rounds."""
    objective = Objective("logistic", scan_parquet(path, label="y"), row_norm=20.0, n_threads=THREADS)
    w = np.full(columns, 0.01)
    scans = {
        "iter_batches": lambda: drain(pq.ParquetFile(path).iter_batches(1 << 17)),
        "mapped iter_batches": lambda: drain(pq.ParquetFile(path, memory_map=True).iter_batches(1 << 17)),
        "dataset": lambda: drain(ds.dataset(path).to_batches()),
    }
    times = times_in_turn({"ours": lambda: clipped_gradient_sum(objective, w, CLIP), **scans}, rounds)
    medians = {each: float(np.median(values)) for each, values in times.items()}
    fastest = min(scans, key=medians.__getitem__)
    shown = ", ".join(f"{each} {1e3 * value:.0f} ms" for each, value in medians.items())
    print(f"{name:45} {np.median(times[fastest] / times['ours']):5.2f} of {fastest}   ({shown})", flush=True)


if __name__ == "__main__":
    arguments = command_line(__doc__, rows=2_000_000, columns=60, rounds=9, folder=Path)
    pa.set_cpu_count(THREADS)
    rng = np.random.default_rng(0)
    noise = {f"x{j}": rng.standard_normal(arguments.rows, dtype=np.float32) for j in range(arguments.columns)}
    y = np.where(noise["x0"] > 0.0, 1.0, -1.0).astype(np.float32)
    rounded = {name: np.round(values, 2) for name, values in noise.items()}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "table.parquet"
        for kind, values in {"random numbers": noise, "measurements of three digits": rounded}.items():
            for options in ({"compression": "none", "use_dictionary": False}, {"compression": "snappy"}):
                pq.write_table(pa.table({**values, "y": y}), path, **options)
                compare(f"{kind}, {options['compression']}", path, arguments.columns, arguments.rounds)
