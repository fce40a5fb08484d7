"""Difficult design matrices, shared by all tests that read data."""

import numpy as np

DTYPES = [np.float32, np.float64]
# Around the number of columns in one and in four vectors of 16, 32 and 64 bytes, and above.
WIDTHS = [1, 3, 8, 9, 16, 17, 33, 64, 131]
# Around blocks of 8 and 16 rows, flushes of 256 and 4096 rows, and ranges of 4096 rows.
ROW_COUNTS = [1, 15, 16, 17, 257, 4097]
NON_FINITE = [np.nan, np.inf, -np.inf]


def huge(dtype):
    """An entry whose square overflows a double (float64) or a float (float32)."""
    return 3e38 if dtype == np.float32 else 1e300


def special_rows(width, dtype):
    """Finite rows that break naive arithmetic, by name."""
    tiny = np.finfo(dtype).smallest_subnormal
    spike = np.zeros(width)
    spike[-1] = 1.0
    rows = {
        "zero": np.zeros(width),
        "negative zero": -np.zeros(width),
        "constant": np.full(width, 0.25),
        "last column only": spike,
        "huge": np.full(width, huge(dtype)),
        "huge spike": spike * huge(dtype),
        "largest": np.full(width, np.finfo(dtype).max),
        "subnormal": np.full(width, tiny),
        "smallest normal": np.full(width, np.finfo(dtype).tiny),
        "mixed magnitudes": np.geomspace(np.finfo(dtype).tiny, huge(dtype), width),
        "alternating": np.where(np.arange(width) % 2, 1.0, -1.0),
    }
    return {name: row.astype(dtype) for name, row in rows.items()}


def ordinary(n_rows, width, dtype, seed=0):
    """Random rows of very different norms, targets -1 and +1, weights and a direction.

    Weights have ``width + 1`` entries: the last is for the intercept.
    """
    rng = np.random.default_rng([seed, n_rows, width])
    x = rng.normal(size=(n_rows, width)) * np.exp(rng.normal(size=(n_rows, 1))) / np.sqrt(width)
    y = np.where(rng.random(n_rows) < 0.5, -1.0, 1.0)
    return x.astype(dtype), y.astype(dtype), rng.normal(size=width + 1), rng.normal(size=width + 1)


def awkward(width, dtype, seed=0):
    """Ordinary rows including every special row; targets, weights and a direction."""
    x, y, w, direction = ordinary(40, width, dtype, seed)
    special = special_rows(width, dtype)
    x[3 : 3 + len(special)] = list(special.values())
    return x, y, w, direction


def spoilt(x, y, row, bad, columns):
    """Copies of the records with a bad entry of that row in each of the columns, and with a bad target."""
    for column in columns:
        other = x.copy()
        other[row, column] = bad
        yield other, y
    other = y.copy()
    other[row] = bad
    yield x, other


def read_only(array):
    """A read-only view of the array."""
    view = array.view()
    view.flags.writeable = False
    return view


def memory_mapped(array, path):
    """The same array in a file, mapped read-only."""
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def misaligned(array):
    """The same array in C order, starting one byte off an element boundary."""
    raw = bytearray(1) + bytearray(array.tobytes())
    return np.frombuffer(raw, dtype=array.dtype, offset=1).reshape(array.shape)
