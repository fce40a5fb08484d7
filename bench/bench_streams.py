"""Passes over files compared with merely reading the files, in one run.

    python bench/bench_streams.py [--gigabytes 10] [--rows 2000000] [--columns 60] [--rounds 9] [--folder DIR]

A gradient pass over a memory map is compared with ``dd if=FILE of=/dev/null bs=1M`` with the file in the page
cache; one over a Parquet file with the fastest of pyarrow's own scans of all columns, both on two threads.
Files are removed afterwards; ``--gigabytes 0`` or ``--rows 0`` skips one half.
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dperm import Objective
from dperm.data import scan_parquet
from measuring import Call, command_line, times_in_turn
from problems import CLIP

THREADS = 2


def compare(name: str, ours: Call, others: dict[str, Call], rounds: int) -> None:
    """Speed relative to the fastest other call, median of the rounds."""
    times = times_in_turn({"ours": ours, **others}, rounds)
    medians = {each: float(np.median(values)) for each, values in times.items()}
    fastest = min(others, key=medians.__getitem__)
    share = np.median(times[fastest] / times["ours"])
    shown = ", ".join(f"{each} {1e3 * value:.0f} ms" for each, value in medians.items())
    print(f"{name:40} {share:5.2f} of {fastest}   ({shown})")


def memory_map(folder: Path, gigabytes: float, rounds: int) -> None:
    """A gradient pass over a float32 memory map compared with dd."""
    d = 120
    block = np.random.default_rng(0).standard_normal((1 << 16, d), dtype=np.float32)
    n_blocks = max(1, round(gigabytes * 1e9 / block.nbytes))
    path = folder / "map.f32"
    with open(path, "wb") as file:
        for _ in range(n_blocks):
            block.tofile(file)
    X = np.memmap(path, np.float32, "r", shape=(n_blocks * len(block), d))
    objective = Objective("logistic", X, np.ones(len(X)), row_norm=20.0, n_threads=THREADS)
    w = np.full(d, 0.01)
    command = ["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"]
    compare(
        f"memory map, {path.stat().st_size / 1e9:.1f} GB of float32",
        lambda: objective.clipped_gradient_sum(w, CLIP),
        {"dd": lambda: subprocess.run(command, check=True)},
        rounds,
    )
    path.unlink()


def parquet_files(folder: Path, rows: int, columns: int, rounds: int) -> None:
    """A gradient pass over Parquet files compared with pyarrow's own scans."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    pa.set_cpu_count(THREADS)
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(columns)]
    noise = [rng.standard_normal(rows, dtype=np.float32) for _ in names]
    y = np.where(noise[0] > 0.0, 1.0, -1.0).astype(np.float32)
    kinds = {
        "random numbers": noise,
        "measurements of three digits": [np.round(each, 2) for each in noise],
    }
    for kind, values in kinds.items():
        table = pa.table({**dict(zip(names, values, strict=True)), "y": y})
        for options in ({"compression": "none", "use_dictionary": False}, {"compression": "snappy"}):
            path = folder / "table.parquet"
            pq.write_table(table, path, **options)
            w = np.full(columns, 0.01)
            objective = Objective("logistic", scan_parquet(path, label="y"), row_norm=20.0, n_threads=THREADS)
            compare(
                f"Parquet, {kind}, {options['compression']}",
                lambda objective=objective, w=w: objective.clipped_gradient_sum(w, CLIP),
                {
                    "iter_batches": lambda path=path: drain(pq.ParquetFile(path).iter_batches(1 << 17)),
                    "dataset": lambda path=path: drain(ds.dataset(path).to_batches()),
                    "mapped iter_batches": lambda path=path: drain(
                        pq.ParquetFile(path, memory_map=True).iter_batches(1 << 17)
                    ),
                },
                rounds,
            )
            path.unlink()


def drain(batches: object) -> int:
    """Read all batches and keep none; returns the number of records."""
    return sum(batch.num_rows for batch in batches)


if __name__ == "__main__":
    arguments = command_line(__doc__, gigabytes=10.0, rows=2_000_000, columns=60, rounds=9, folder=Path)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        if arguments.gigabytes:
            memory_map(Path(name), arguments.gigabytes, arguments.rounds)
        if arguments.rows:
            parquet_files(Path(name), arguments.rows, arguments.columns, arguments.rounds)
