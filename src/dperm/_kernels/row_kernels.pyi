from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import PoissonDraw

LOSS_KINDS: dict[str, int]

def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def threads_compiled_in() -> bool: ...
def openmp_threads() -> int: ...
def end_openmp_threads() -> None: ...
def smooth_rows(v: NDArray[np.float64], sigma: float, n_threads: int) -> NDArray[np.float64]: ...

class MatrixSource:
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    size: int

class TabularSource(MatrixSource):
    def __init__(
        self,
        numeric: NDArray[Any],
        codes: NDArray[Any],
        numeric_columns: Sequence[int],
        first_columns: Sequence[int],
        sizes: Sequence[int],
        step: float,
    ) -> None: ...
    @property
    def nonzero_bytes(self) -> int: ...

class ColumnsSource(MatrixSource):
    def __init__(self, columns: Sequence[NDArray[np.float32]] | Sequence[NDArray[np.float64]]) -> None: ...

class SparseSource(MatrixSource):
    def __init__(
        self,
        values: NDArray[np.float32] | NDArray[np.float64],
        columns: NDArray[np.int32] | NDArray[np.int64],
        starts: NDArray[np.int64],
        n_columns: int,
    ) -> None: ...
    def fault(self) -> tuple[str | None, int]: ...

class DenseRows:
    x: NDArray[np.float32] | NDArray[np.float64] | MatrixSource
    y: NDArray[np.float32] | NDArray[np.float64]
    norms: NDArray[np.float64]
    counts: NDArray[np.int64] | None
    weights: NDArray[np.float64] | None
    def __init__(
        self,
        x: NDArray[np.float32] | NDArray[np.float64] | MatrixSource,
        y: NDArray[np.float32] | NDArray[np.float64],
        intercept: bool,
        row_norm: float,
        n_threads: int,
        counts: NDArray[np.int64] | None = None,
        keep_norms: bool = True,
        weights: NDArray[np.float64] | None = None,
    ) -> None: ...
    def call(self, pass_: Any, n_threads: int) -> Any: ...
    def descend(self, steps: Any) -> None: ...

class SoftmaxRows(DenseRows): ...

class NoisyBatchSums:
    def __init__(
        self,
        rows: DenseRows,
        sums: Any,
        n_threads: int,
        samples: tuple[PoissonDraw, PoissonDraw] | Iterator[NDArray[np.int64]],
    ) -> None: ...
    def __call__(self, w: NDArray[np.float64]) -> NDArray[np.float64]: ...
