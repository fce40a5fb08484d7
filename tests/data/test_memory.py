"""Memory that passes need besides the records, each measured in a separate process."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from pyarrow import csv, parquet

from reference.record_files import table

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")


def numbers_of(*parts):
    """The output of a program given in parts of any indentation."""
    program = "\n".join(map(textwrap.dedent, parts))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(map(int, run.stdout.split()))


WATCH = """
import threading, time

def own_memory():  # in kB; pages of files can be dropped at any time and do not count
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

before, peak, done = own_memory(), 0, False

def watch():
    global peak
    while not done:
        peak = max(peak, own_memory())
        time.sleep(0.001)

watcher = threading.Thread(target=watch)
watcher.start()
"""
GROWTH = """
done = True
watcher.join()
print(1024 * (peak - before))
"""


@needs_proc
def test_a_map_is_not_read_into_memory(tmp_path):
    n, d = 200_000, 50  # 40 MB
    np.random.default_rng(0).standard_normal((n, d), dtype=np.float32).tofile(tmp_path / "x")
    prepare = f"""
        import numpy as np, dperm

        x = np.memmap({str(tmp_path / "x")!r}, np.float32, "r", shape=({n}, {d}))
        y = np.where(np.arange({n}) % 2 == 0, 1.0, -1.0)
        model = dperm.LogisticRegression(
            solver="noisy_gd", solver_options={{"steps": 5}}, classes=[-1, 1], random_state=1
        )
        model.fit(x[:9000], y[:9000])  # libraries, threads, buffers
    """
    (growth,) = numbers_of(prepare, WATCH, "model.fit(x, y)", GROWTH)
    assert growth < 12 * 8 * n  # a few numbers a record: targets, their checks, norms


READ = """
    import numpy as np, pyarrow
    from dperm import Objective
    from dperm.data import scan_csv, scan_parquet
    from dperm.objective.gradients import clipped_gradient_sum

    def a_pass(source, n_columns, passes=1):
        objective = Objective("logistic", source, n_threads=2)
        for _ in range(passes):
            clipped_gradient_sum(objective, np.full(n_columns, 0.01), 0.5)
"""
READ_BUFFER = 1 << 18  # bytes of a Parquet column that are read at once
POOL = "print(pyarrow.default_memory_pool().max_memory())"  # its peak in bytes


def in_small_pages(folder, n, width, dtype):
    """Path of a Parquet file of random numbers; the reader keeps a page of each column."""
    path = str(folder / "t.parquet")
    written = table(np.random.default_rng(0).standard_normal((n, width), dtype=dtype), np.ones(n))
    parquet.write_table(written, path, use_dictionary=False, data_page_size=1 << 16)
    return path


@needs_proc
def test_files_are_not_read_into_memory(tmp_path):
    width, chunk_rows = 50, 5_000  # 80 MB, chunks of 1 MB
    path = in_small_pages(tmp_path, 400_000, width, np.float32)
    prepare = f"a_pass(scan_parquet({path!r}, label='y', chunk_rows=1000), {width})"  # libraries, buffers
    work = f"a_pass(scan_parquet({path!r}, label='y', chunk_rows={chunk_rows}), {width}, 3)"
    growth, tables = numbers_of(READ, prepare, WATCH, work, GROWTH, POOL)
    chunk = 4 * chunk_rows * (width + 2)  # targets are doubles
    assert tables < 3 * chunk + width * ((1 << 16) + READ_BUFFER) + 2e6
    assert growth < 30e6  # allocators keep much of what was freed


@needs_proc
def test_a_schema_is_learned_chunk_by_chunk(tmp_path):
    width = 25  # 80 MB, chunks of 1 MB
    path = in_small_pages(tmp_path, 400_000, width, np.float64)
    prepare = f"""
        import dperm
        from dperm.data import scan_parquet

        def learn(n_columns, chunk_rows):
            columns = ["x%d" % j for j in range(n_columns)]
            source = scan_parquet({path!r}, label="y", columns=columns, chunk_rows=chunk_rows)
            dperm.Schema.learn(source, 1.0, 1e-6, kinds={{"y": "numeric"}})

        learn(1, 1000)  # libraries, buffers
    """
    (growth,) = numbers_of(prepare, WATCH, f"learn({width}, 5000)", GROWTH)
    assert growth < 30e6


def highest_pool(source, n_columns):
    """Peak of pyarrow's memory pool in two passes of a program with 16 reader threads."""
    (most,) = numbers_of(READ, "pyarrow.set_cpu_count(16)", f"a_pass({source}, {n_columns})", POOL)
    return most


def test_a_csv_file_takes_a_few_chunks(tmp_path):
    n, width, block_bytes = 100_000, 20, 1 << 20
    x = np.random.default_rng(0).standard_normal((n, width)).round(6)
    csv.write_csv(table(x, np.ones(n)), tmp_path / "t.csv")
    n_chunks = (tmp_path / "t.csv").stat().st_size / block_bytes
    assert n_chunks > 15
    source = f"scan_csv({str(tmp_path / 't.csv')!r}, label='y', block_bytes={block_bytes})"
    text = 2 * block_bytes  # the current block, and the previous one, which threads may still hold
    assert highest_pool(source, width) < 5 * 8 * n * (width + 1) / n_chunks + text


@pytest.mark.parametrize(
    ("dtype", "compression"),
    [(np.float64, "zstd"), pytest.param(np.float32, "snappy", marks=pytest.mark.slow)],
)
def test_a_parquet_file_takes_chunks_and_two_pages_a_column(tmp_path, dtype, compression):
    """As most programs write them, with a dictionary of up to 1 MiB that the values soon outgrow."""
    width, buffer_rows = 30, 1 << 13
    x = np.random.default_rng(0).standard_normal((400_000, width)).astype(dtype)
    x = np.concatenate([x] * (8 // x.itemsize))
    written = table(x, np.ones(len(x)))
    parquet.write_table(written, tmp_path / "t.parquet", compression=compression)
    source = f"scan_parquet({str(tmp_path / 't.parquet')!r}, label='y', chunk_rows={buffer_rows - 1000})"
    bound = 3 * buffer_rows * (width * x.itemsize + 8) + (width + 1) * ((2 << 20) + READ_BUFFER) + 1e6
    assert bound < 0.9 * written.nbytes
    assert highest_pool(source, width) < bound


@needs_proc
@pytest.mark.parametrize("threads", [1, 3])
def test_wide_sparse_data_are_not_made_dense(threads):
    """Peak memory of the process including the kernels: gradients and a line search."""
    program = f"""
        import numpy as np, scipy.sparse as sp
        from dperm import Objective
        from dperm.objective.gradients import clipped_gradient_sum
        from dperm.objective.losses import clipped_loss_sums
        rng, n, d, k = np.random.default_rng(0), 20_000, 1_000_000, 50
        columns = rng.integers(0, d, n * k).astype(np.int32)
        X = sp.csr_array((rng.normal(size=n * k), columns, np.arange(0, n * k + 1, k)), shape=(n, d))
        X.sum_duplicates()
        y, w = np.ones(n), np.zeros(d)
        status = lambda key: next(int(line.split()[1]) for line in open("/proc/self/status") if key in line)
        clipped_gradient_sum(Objective("logistic", X[:10], y[:10]), w, 0.5)
        open("/proc/self/clear_refs", "w").write("5")  # the peak begins here
        before = status("VmRSS:")
        made = Objective("logistic", X, y, row_norm=1.0, n_threads={threads})
        clipped_gradient_sum(made, w, 0.5)
        clipped_loss_sums(made, w, np.ones(d), [0.0, 1.0], 1.0)
        print(1024 * (status("VmHWM:") - before))
    """
    (growth,) = numbers_of(program)
    # A few vectors, and one per thread; a block of dense rows has 16.
    assert growth < (6 + threads) * 8 * 1_000_000
