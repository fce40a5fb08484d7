from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

def distinct_records(
    parts: list[tuple[NDArray[Any], Integers | None]],
    n_records: int,
    n_threads: int,
    key: NDArray[np.uint64] | None = None,
) -> tuple[Integers, Integers]: ...
def csv_ends_of(text: NDArray[np.uint8], delimiter: int) -> tuple[int, int, int, int, bool]: ...

class RecordIndex:
    def __init__(self, ends: Integers) -> None: ...
    def rows(self, records: Integers) -> Integers: ...
