"""Bits of a byte stream in the order of the compiled samplers, and scripted streams."""

import random

from hypothesis import strategies as st

from dperm._kernels import row_kernels, samplers


class OutOfBits(Exception):
    pass


class BitReader:
    """Reads the lowest bit of the first byte first."""

    def __init__(self, data):
        self._data, self._position = data, 0
        self._bits, self._left = 0, 0

    def take(self, count):
        while count > self._left:
            chunk = self._data[self._position : self._position + 64]
            if not chunk:
                raise OutOfBits
            self._bits |= int.from_bytes(chunk, "little") << self._left
            self._left += 8 * len(chunk)
            self._position += len(chunk)
        value = self._bits & ((1 << count) - 1)
        self._bits >>= count
        self._left -= count
        return value

    def word(self):
        return self.take(32) << 32 | self.take(32)

    def below(self, bound):
        length = (bound - 1).bit_length()
        while True:
            high = self.take(length - 32) if length > 32 else 0
            value = high << 32 | self.take(min(length, 32))
            if value < bound:
                return value


def pack(fields):
    """Bytes from (number of bits, value) pairs, padded with zero bits: the inverse of BitReader.take."""
    total, position = 0, 0
    for width, value in fields:
        assert 0 <= value < 1 << width
        total |= value << position
        position += width
    return total.to_bytes(-(-position // 8), "little")


class ScriptedSource:
    """The given bytes, then pseudo-random ones, or an exception if `tail_seed` is None."""

    def __init__(self, script=b"", tail_seed=None, error=None):
        self.script = bytes(script)
        self.tail = None if tail_seed is None else random.Random(tail_seed)
        self.error = error or RuntimeError("script is over")
        self.given = b""

    def fill(self, buffer):
        size = len(buffer)
        if len(self.script) < size and self.tail is None:
            raise self.error
        chunk, self.script = self.script[:size], self.script[size:]
        if len(chunk) < size:
            chunk += self.tail.randbytes(size - len(chunk))
        buffer[:] = chunk
        self.given += chunk
        return size


def scripted(digits, seed):
    """Digits of 32 bits, then pseudo-random ones."""
    return ScriptedSource(pack([(32, digit) for digit in digits]), tail_seed=seed)


# Streams of few distinct digits: ties, long sequences and restarts in nearly every draw.
awkward_streams = st.builds(
    scripted,
    st.lists(
        st.sampled_from([0, 1, 2, 0x55555555, 0x7FFFFFFF, 0x80000000, 0xAAAAAAAA, 0xFFFFFFFE, 0xFFFFFFFF])
        | st.integers(0, 2**32 - 1),
        max_size=60,
    ),
    st.integers(0, 2**32),
)


def assert_equals_twin(source, compiled, twin):
    """A compiled sampler and its twin draw the same from the bits that the former read."""
    drawn = compiled(samplers.RandomBits(source))
    drawn = drawn if isinstance(drawn, list) else drawn.tolist()
    assert drawn == twin(BitReader(source.given))


def constant_bits(byte):
    """A stream of one repeated byte, as from a broken source."""
    return samplers.RandomBits(ScriptedSource(byte * 2_000_000))


def samples_on_each_instruction_set(draw):
    """Results of `draw` on each instruction set of this machine, the baseline first."""
    before, results = samplers.instruction_set(), []
    try:
        for name in row_kernels.instruction_sets():
            samplers.use_instruction_set(name)
            assert samplers.instruction_set() == name
            results.append(draw())
    finally:
        samplers.use_instruction_set(before)
    return results
