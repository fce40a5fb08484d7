from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.samplers import PoissonDraw

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
LossSpec = tuple[int, float, float]

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
        maps: Sequence[NDArray[np.float32] | None] = (),
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
    def row_norms(self, n_threads: int) -> Reals: ...
    def entry_sum(self, n_threads: int) -> float: ...
    def predictions(self, w: Reals, n_threads: int) -> Reals: ...
    def clipped_gradient_sum(
        self,
        loss_spec: LossSpec,
        w: Reals,
        inner_clip: float,
        grid: float,
        n_threads: int,
        batch: Integers | None = None,
        clip_norms: Reals | None = None,
        keep_predictions: bool = False,
    ) -> Integers: ...
    def gradient_sum(
        self,
        loss_spec: LossSpec,
        w: Reals,
        n_threads: int,
        inner_clip: float = ...,
        with_loss: bool = True,
        precise: bool = False,
    ) -> tuple[Reals, float]: ...
    def clipped_loss_sums(
        self,
        loss_spec: LossSpec,
        w: Reals,
        direction: Reals,
        steps: Reals,
        clip: float,
        grid: float,
        n_threads: int,
    ) -> Integers: ...
    def coordinate_loss_sums(
        self,
        loss_spec: LossSpec,
        w: Reals,
        stride: float,
        intercept_stride: float,
        clip: float,
        grid: float,
        n_threads: int,
    ) -> Integers: ...
    def gram_sum(
        self,
        loss_spec: LossSpec | None,
        w: Reals | None,
        rounding: tuple[float, float],
        n_threads: int,
        target: tuple[float, float, float] | None = None,
        upper: bool = False,
        columns: Reals | None = None,
        batch: Integers | None = None,
    ) -> Integers: ...
    def moment_sums(
        self,
        inner_bound: float,
        grid: float,
        clip: float,
        n_threads: int,
        columns: Reals | None = None,
        batch: Integers | None = None,
    ) -> Integers: ...
    def norm_counts(
        self,
        inner_bound: float,
        n_bins: int,
        columns: Reals,
        n_threads: int,
        batch: Integers | None = None,
    ) -> Integers: ...
    def magnitude_counts(
        self, inner_bound: float, grid: float, n_bins: int, n_threads: int, batch: Integers | None = None
    ) -> Integers: ...
    def norms_scaled(self, column_scales: Reals, n_threads: int) -> Reals: ...
    def norms_through(self, inner_bound: float, grid: float, matrix: Reals, n_threads: int) -> Reals: ...
    def image_sum(
        self,
        images: Any,
        loss_spec: LossSpec,
        w: Reals | None,
        image_factor: int,
        image_bound: float,
        n_threads: int,
        batch: Integers | None = None,
    ) -> Integers: ...
    def image_gram(
        self,
        images: Any,
        loss_spec: LossSpec,
        w: Reals | None,
        image_factor: int,
        image_bound: float,
        n_threads: int,
        batch: Integers | None = None,
    ) -> Integers: ...
    def image_table(
        self, images: Any, n_bins: int, n_threads: int, batch: Integers | None = None
    ) -> Integers: ...
    def residual_sums(
        self,
        images: Any,
        loss_spec: LossSpec,
        w: Reals,
        largest_square: float,
        largest_curvature: float,
        n_threads: int,
        batch: Integers | None = None,
    ) -> Integers: ...
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
