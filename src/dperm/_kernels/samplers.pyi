from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

class ByteSource(Protocol):
    def fill(self, buffer: memoryview, /) -> int: ...

class RandomBits:
    source: ByteSource
    lock: Any
    def __init__(self, source: ByteSource) -> None: ...

class Draw:
    def _result(self) -> NDArray[np.int64]: ...

class GaussianDraw(Draw):
    def __init__(
        self, bits: RandomBits, numerator: int, log2_denominator: int, size: int | Sequence[int]
    ) -> None: ...

class PoissonDraw(Draw):
    def __init__(
        self,
        bits: RandomBits,
        threshold: int,
        n_rows: int,
        room: int,
        law: tuple[NDArray[np.uint32], int] | None = None,
    ) -> None: ...

def process_mark() -> int: ...
def uniform_words(bits: RandomBits, size: int | Sequence[int]) -> NDArray[np.uint64]: ...
def rounded_gaussian(
    bits: RandomBits, numerator: int, log2_denominator: int, size: int | Sequence[int]
) -> NDArray[np.int64]: ...
def exponential_mechanism(
    bits: RandomBits, scores: NDArray[np.int64], numerator: int, log2_denominator: int
) -> int: ...
def bernoulli_exp(
    bits: RandomBits, numerator: int, log2_denominator: int, size: int | Sequence[int]
) -> NDArray[np.bool_]: ...
def discrete_laplace(
    bits: RandomBits,
    numerator: int,
    log2_denominator: int,
    size: int | Sequence[int],
    two_sided: bool = True,
) -> NDArray[np.int64]: ...
def permute_and_flip(
    bits: RandomBits, scores: NDArray[np.int64], numerator: int, log2_denominator: int
) -> int: ...
def report_noisy_min(
    bits: RandomBits, scores: NDArray[np.int64], numerator: int, log2_denominator: int, two_sided: bool
) -> int: ...
def norm_laplace(
    bits: RandomBits,
    numerator: int,
    log2_denominator: int,
    vectors: int,
    dimension: int,
    first_digits: int = 3,
) -> NDArray[np.int64]: ...
def norm_laplace_float(
    bits: RandomBits, scale: float, vectors: int, dimension: int
) -> NDArray[np.float64]: ...
def normals_float(bits: RandomBits, factor: float, out: NDArray[np.float64]) -> None: ...
def poisson_sample(bits: RandomBits, threshold: int, n_rows: int, room: int) -> NDArray[np.int64]: ...
def sparse_sample(
    bits: RandomBits, digits: NDArray[np.uint32], log2_block: int, n_rows: int, room: int
) -> NDArray[np.int64]: ...
def uniform_integers(bits: RandomBits, bound: int, size: int | Sequence[int]) -> NDArray[np.int64]: ...
def permutation(bits: RandomBits, count: int, narrow: bool) -> NDArray[np.int32] | NDArray[np.int64]: ...
def sample_without_replacement(bits: RandomBits, population: int, size: int) -> NDArray[np.int64]: ...
def samples_without_replacement(
    bits: RandomBits, population: int, size: int, count: int
) -> NDArray[np.int64]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
