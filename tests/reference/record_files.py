"""Records in files."""

import numpy as np


def names_of(x):
    """Names of the columns of a matrix."""
    return [f"x{j}" for j in range(x.shape[1])]


def table(x, y, **others):
    """The columns of a matrix, its targets as the column "y", and others, as a table of pyarrow."""
    import pyarrow as pa

    columns = dict(zip(names_of(x), np.ascontiguousarray(x.T), strict=True))
    return pa.table({**columns, "y": y, **others})


def in_parquet_files(folder, x, y, cuts=(400, 400), **options):
    """A pattern for three Parquet files, the second of them without a record."""
    from pyarrow import parquet

    for i, (start, stop) in enumerate(zip((0, *cuts), (*cuts, len(x)), strict=True)):
        written = table(x[start:stop], y[start:stop])
        parquet.write_table(written, folder / f"{i}.parquet", row_group_size=150, **options)
    return str(folder / "*.parquet")
