"""Rows that are the sum of parts, each of which is made when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm._kernels.row_kernels import end_openmp_threads
from dperm.data.ahead import ThreadsBesideReader
from dperm.data.rows import Array, Integers, LossSpec, RowImages, Rows, sums_of_models
from dperm.errors import DataError
from dperm.private_values.secret_rows import SecretRows

Sums = TypeVar("Sums", bound=NDArray[Any])
Result = TypeVar("Result")


@dataclass(frozen=True)
class Part:
    """Consecutive records: as the kernels read them, and the matrix and targets behind them."""

    rows: Rows
    matrix: Any
    targets: NDArray[Any]


class Parts(Protocol):
    """Records in consecutive parts, in memory for as long as they are worked on."""

    def read(self) -> Generator[Part, None, None]:
        """All parts in order, none of them empty.

        Raises DataError, at the latest after the last part, if the records are not what they were at
        construction: whoever has come to the end may use what was computed.
        """

    def stacked(self, matrices: list[Any], targets: NDArray[Any]) -> Rows:
        """Rows of some parts' matrices, one below the other."""


class ChunkedRows:
    """Records in parts: every pass adds up the parts' exact integers.

    They are those of the same records in one piece, whatever the parts. What is kept is 8 bytes a record
    where a pass asks for lengths or predictions; never the matrix.

    Parameters
    ----------
    parts : Parts
        Read once here, so that all records are checked before anything is drawn or charged.

    Raises
    ------
    DataError
        For records that cannot be used, parts that do not fit together, or none at all; in every pass if the
        records have changed.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._process = os.getpid()
        self._threads = ThreadsBesideReader()
        self.n_rows = 0
        with closing(parts.read()) as each:
            for part in each:
                if self.n_rows == 0:
                    self.n_columns, self.dtype = part.rows.n_columns, part.rows.dtype
                    self._entries_per_part = part.rows.n_entries
                elif (part.rows.n_columns, part.rows.dtype) != (self.n_columns, self.dtype):
                    raise DataError(
                        f"the records from row {self.n_rows} on have {part.rows.n_columns} columns of "
                        f"{part.rows.dtype}; those before have {self.n_columns} of {self.dtype}"
                    )
                self.n_rows += part.rows.n_rows
                del part  # not kept while the next one is waited for
        if self.n_rows == 0:
            raise DataError("X must have at least one record")

    @property
    def n_entries(self) -> int:
        """Numbers in a part: passes use threads within one part after the other."""
        return self._entries_per_part

    def label_sum(self) -> int:
        """Sum of the labels of the finite records."""
        return sum(self._collect(lambda rows, _: rows.label_sum()))

    def class_counts(self, n_classes: int) -> Integers:
        """Finite records of each class."""
        return self._sum(lambda rows, _: rows.class_counts(n_classes))

    @property
    def n_partitions(self) -> int:
        """None: this process reads the records."""
        return 0

    def drawn(self, sample: SecretRows, n_public: int) -> Integers:
        """Ascending indices of a secret sample's records."""
        return sample._among(self.n_rows, n_public)

    def mapped_lengths(self, images: RowImages, n_threads: int) -> Array:
        """Lengths of the rows' images."""
        return np.concatenate(
            self._collect(lambda rows, _: rows.mapped_lengths(images, self._threads.of(n_threads)))
        )

    def clipped_gradient_sum(
        self,
        loss_spec: LossSpec,
        w: Array,
        clip_in: float,
        grid: float,
        n_threads: int,
        batch: Integers | None = None,
        clip_norms: Array | None = None,
        keep_predictions: bool = False,  # parts do not live long enough
    ) -> Integers:
        """Clipped gradients in units of the grid; of a sample in one pass over all parts, too."""

        def of_part(rows: Rows, here: slice) -> Integers:
            options: dict[str, Any] = {}
            if clip_norms is not None:
                options["clip_norms"] = clip_norms[here]
            if batch is not None:
                options["batch"] = _share(batch, here)
            return rows.clipped_gradient_sum(
                loss_spec, w, clip_in, grid, self._threads.of(n_threads), **options
            )

        return self._sum(of_part)

    def sums_of_models(
        self,
        loss_spec: LossSpec,
        w: Array,
        clips_in: Array,
        grids: Array,
        n_threads: int,
        folds: NDArray[np.int32] | None,
        left_out: NDArray[np.int32],
    ) -> Integers:
        """Clipped gradients at ``w[0], w[1], ..``: all parts are read once, whatever the number of models."""

        def of_part(rows: Rows, here: slice) -> Integers:
            own_folds = None if folds is None else folds[here]
            n_rows, threads = here.stop - here.start, self._threads.of(n_threads)
            return np.stack(
                sums_of_models(rows, loss_spec, w, clips_in, grids, threads, own_folds, left_out, n_rows)
            )

        return self._sum(of_part)

    def noisy_batch_sums(self, *arguments: Any) -> None:
        """None: parts come one after the other."""

    def gradient_sum(
        self, loss_spec: LossSpec, w: Array, n_threads: int, with_loss: bool = True, precise: bool = False
    ) -> tuple[Array, float]:
        """Plain sums of gradients and losses; the last bits depend on the parts."""
        options = {"precise": True} if precise else {}
        sums = self._collect(
            lambda rows, _: rows.gradient_sum(loss_spec, w, self._threads.of(n_threads), with_loss, **options)
        )
        return np.sum([gradient for gradient, _ in sums], axis=0), sum(loss for _, loss in sums)

    def clipped_loss_sums(
        self,
        loss_spec: LossSpec,
        w: Array,
        direction: Array,
        steps: Array,
        clip: float,
        grid: float,
        n_threads: int,
    ) -> Integers:
        """Clipped losses along a line."""
        return self._sum(
            lambda rows, _: rows.clipped_loss_sums(
                loss_spec, w, direction, steps, clip, grid, self._threads.of(n_threads)
            )
        )

    def coordinate_loss_sums(
        self, loss_spec: LossSpec, w: Array, stride: float, clip: float, grid: float, n_threads: int
    ) -> Integers:
        """Changes of the losses at the neighbours of `w` along the axes."""
        return self._sum(
            lambda rows, _: rows.coordinate_loss_sums(
                loss_spec, w, stride, clip, grid, self._threads.of(n_threads)
            )
        )

    def gram_sum(
        self,
        loss_spec: LossSpec,
        w: Array | None,
        bound_in: float,
        grid: float,
        target_factor: float,
        n_threads: int,
        upper: bool = False,
    ) -> Integers:
        """Upper triangle of the sum of outer products."""
        return self._sum(
            lambda rows, _: rows.gram_sum(
                loss_spec, w, bound_in, grid, target_factor, self._threads.of(n_threads), upper
            )
        )

    def moment_sums(self, bound_in: float, grid: float, clip: float, n_threads: int) -> Integers:
        """Sums of entries, and of squares clipped row by row."""
        return self._sum(lambda rows, _: rows.moment_sums(bound_in, grid, clip, self._threads.of(n_threads)))

    def predictions(self, w: Array, n_threads: int) -> Array:
        """Linear predictions, one per row."""
        return np.concatenate(self._collect(lambda rows, _: rows.predictions(w, self._threads.of(n_threads))))

    def sgd_steps(
        self,
        loss_spec: LossSpec,
        settings: tuple[float, float, float, float, int, float],
        w: Array,
        w_sum: Array | None,
        order: Integers,
        batch_ends: Integers,
        step_sizes: Array,
        noise: Integers | Array | None,
    ) -> None:
        """Steps of stochastic gradient descent on `w`, in place.

        One pass over all parts collects the records that these steps use, in memory.
        """
        rows, places = self._gathered(order)
        rows.sgd_steps(loss_spec, settings, w, w_sum, places, batch_ends, step_sizes, noise)

    def _gathered(self, order: Integers) -> tuple[Rows, Integers]:
        """The records of `order` in memory, and where each of them is there."""
        there = (order >= 0) & (order < self.n_rows)  # other places hold no record
        wanted = np.unique(np.append(order[there], 0))  # one record at least: a matrix has rows

        def taken(part: Part, here: slice) -> tuple[Any, NDArray[Any]]:
            share = _share(wanted, here)
            return part.matrix[share], part.targets[share]

        with closing(self._each(taken)) as shares:
            matrices, targets = zip(*shares, strict=True)
        rows = self._parts.stacked(list(matrices), np.concatenate(targets))
        return rows, np.where(there, np.searchsorted(wanted, order), -1)

    def _each(self, apply: Callable[[Part, slice], Result]) -> Generator[Result, None, None]:
        """``apply`` to every part and its place. Nobody may use the results before the last one."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "records in files cannot be read in a forked process: their reader has threads. Build the "
                "objective in the process that uses it (with joblib: backend 'loky')."
            )
        start, asked = 0, perf_counter()
        with closing(self._parts.read()) as parts:
            for part in parts:
                had = perf_counter()
                here = slice(start, start + part.rows.n_rows)
                if here.stop > self.n_rows:
                    break
                result = apply(part, here)
                self._threads.heed(waited=had - asked, worked=perf_counter() - had)
                end_openmp_threads()  # they would spin, and the reader needs their cores
                yield result
                asked = perf_counter()
                start = here.stop
                del part  # not kept while the next one is waited for
        if start != self.n_rows:
            raise DataError(
                f"the data hold another number of records than before ({self.n_rows}): they have changed. "
                "Nothing was released from this pass; train on files that nobody writes to."
            )

    def _collect(self, apply: Callable[[Rows, slice], Result]) -> list[Result]:
        with closing(self._each(lambda part, here: apply(part.rows, here))) as results:
            return list(results)

    def _sum(self, apply: Callable[[Rows, slice], Sums]) -> Sums:
        with closing(self._each(lambda part, here: apply(part.rows, here))) as sums:
            total = next(sums)
            for each in sums:
                total += each
            return total

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            "records in files are not sent to other processes: send the paths, and read them there"
        )

    __copy__ = __deepcopy__ = __getstate__ = _refuse

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._refuse()


def _share(indices: Integers, here: slice) -> Integers:
    """Those of ascending indices that lie in a part, counted from its start."""
    first, last = np.searchsorted(indices, [here.start, here.stop])
    return np.asarray(indices[first:last] - here.start)
