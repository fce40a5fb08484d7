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
