"""Tables for learning schemas, in every supported representation."""

import warnings

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dperm.data import scan_csv, scan_parquet

KINDS = {"age": "numeric", "pay": "numeric", "job": "categorical", "town": "categorical", "row": "ignored"}


def people(n=6000, seed=0):
    """Numbers of several magnitudes, some missing, texts, some rare, and a label."""
    rng = np.random.default_rng(seed)
    pay = np.where(rng.random(n) < 0.1, np.nan, np.exp(rng.normal(7.0, 1.0, n)))
    job = rng.choice(["cook", "clerk", "nurse"], n, p=[0.6, 0.3, 0.1]).astype(object)
    job[:3] = "astronaut"
    town = rng.choice(["North", "South"], n).astype(object)
    town[rng.random(n) < 0.2] = None
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": job,
            "pay": pay,
            "town": town,
            "row": np.arange(n),
            "label": rng.choice([-1, 1], n),
        }
    )


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def in_parquet(frame, folder, **options):
    half = len(frame) // 2
    for i, part in enumerate((frame[:half], frame[half:half], frame[half:])):
        pyarrow.parquet.write_table(arrow(part).cast(arrow(frame).schema), folder / f"{i}.parquet")
    return scan_parquet(str(folder / "*.parquet"), label="label", **options)


def in_csv(frame, folder, **options):
    pyarrow.csv.write_csv(arrow(frame), folder / "people.csv")
    return scan_csv(folder / "people.csv", label="label", **options)


def in_dask(frame, partitions=4):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dask.dataframe.from_pandas(frame, npartitions=partitions)


#: Functions of a pandas frame and a folder for files.
REPRESENTATIONS = {
    "pandas": lambda frame, _: frame.astype({"job": "str"}),
    "pandas objects": lambda frame, _: frame.astype(dict.fromkeys(["age", "pay", "job", "town"], object)),
    "pandas nullable": lambda frame, _: frame.convert_dtypes(),
    "pandas category": lambda frame, _: frame.astype(
        {"job": pd.CategoricalDtype(["cook", "clerk", "nurse", "astronaut", "acrobat", "", "nobody"])}
    ),
    "arrays": lambda frame, _: {name: frame[name].to_numpy() for name in frame},
    "polars": lambda frame, _: pl.DataFrame(arrow(frame)),
    "polars category": lambda frame, _: pl.DataFrame(arrow(frame)).with_columns(
        pl.col("job").cast(pl.Categorical)
    ),
    "arrow": lambda frame, _: arrow(frame),
    "arrow chunks": lambda frame, _: pa.concat_tables([arrow(frame[:100]), arrow(frame[100:])]),
    "arrow dictionary": lambda frame, _: arrow(frame).set_column(
        1, "job", pa.chunked_array([arrow(frame)["job"].combine_chunks().dictionary_encode()])
    ),
    "arrow views": lambda frame, _: arrow(frame).set_column(
        1, "job", arrow(frame)["job"].cast(pa.string_view())
    ),
    "parquet": in_parquet,
    "parquet, short chunks": lambda frame, folder: in_parquet(frame, folder, chunk_rows=97),
    "csv": in_csv,
    "csv, short blocks": lambda frame, folder: in_csv(frame, folder, block_bytes=2000),
    "dask": lambda frame, _: in_dask(frame),
    "dask, one partition": lambda frame, _: in_dask(frame, 1),
}
