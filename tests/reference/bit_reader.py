"""Bits of a byte stream in the order in which the compiled samplers read them, and scripted streams."""

import random


class OutOfBits(Exception):
    pass


class BitReader:
    """Lowest bit of the first byte first."""

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
    """Bytes from (number of bits, value) pairs, padded with zero bits: what BitReader.take undoes."""
    total, position = 0, 0
    for width, value in fields:
        assert 0 <= value < 1 << width
        total |= value << position
        position += width
    return total.to_bytes(-(-position // 8), "little")


class ScriptedSource:
    """Given bytes, then pseudo-random ones, or an exception if `tail_seed` is None."""

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
