"""Sources of random bytes: cryptographic for releases, seeded for reproducible runs.

A source fills buffers with independent uniform bytes. The exact samplers read it through
:class:`dperm._kernels.samplers.RandomBits`.
"""

from __future__ import annotations

import itertools
import operator
import os
import threading
from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from dperm._kernels.samplers import RandomBits, process_mark

# n blocks of 16 bytes from one key are at most n^2 / 2^129 from uniform in total variation: 2^-77 here.
_BYTES_PER_KEY = 1 << 30

# The cipher may require an output buffer that has room for one block less one byte more than it writes.
_SPARE_BYTES = 15


class _Source:
    """Base of the sources. They cannot be copied, as a copy would repeat the bytes."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: the copy would repeat its bytes")


class _CipherStream:
    """A thread-safe stream of one process. ``new_key`` returns 48 bytes: a key and an initial counter."""

    def __init__(self, new_key: Callable[[], bytes]) -> None:
        self.process = process_mark()
        self._lock = threading.Lock()
        self._new_key = new_key
        self._rekey()

    def _rekey(self) -> None:
        key = self._new_key()
        self._cipher: CipherContext = Cipher(algorithms.AES(key[:32]), modes.CTR(key[32:])).encryptor()
        self._bytes_left = _BYTES_PER_KEY

    def fill(self, buffer: memoryview) -> int:
        with self._lock:
            if self._bytes_left < len(buffer):
                self._rekey()
            self._bytes_left -= len(buffer)
            # The keystream is the encryption of zeros.
            direct = max(len(buffer) - _SPARE_BYTES, 0)
            written = self._cipher.update_into(bytes(direct), buffer) if direct else 0
            buffer[direct:] = self._cipher.update(bytes(len(buffer) - direct))
        return written + len(buffer) - direct


def _system_key() -> bytes:
    return os.urandom(32) + os.urandom(16)


class CryptographicSource(_Source):
    """Unpredictable bytes: AES-256 in counter mode, keyed by the operating system.

    The key is renewed after every gibibyte and in every forked child. Threads may share a source.

    References
    ----------
    NIST SP 800-38A (counter mode). The cipher is OpenSSL's, through the ``cryptography`` package.
    """

    kind: Literal["cryptographic"] = "cryptographic"

    def __init__(self) -> None:
        self._stream = _CipherStream(_system_key)

    def fill(self, buffer: memoryview) -> int:
        """Overwrite `buffer`, a writable memoryview of bytes, and return its length in bytes."""
        stream = self._stream
        if stream.process != process_mark():
            # In a race, each thread gets a stream with a key of its own.
            stream = self._stream = _CipherStream(_system_key)
        return stream.fill(buffer)

    def spawn(self, n: int) -> list[CryptographicSource]:
        """Return `n` independent sources, each with a key of its own."""
        return [CryptographicSource() for _ in range(n)]

    def __repr__(self) -> str:
        return "CryptographicSource()"


class DerivedSource(_Source):
    """A stream derived from a secret key and a name, which always give the same bytes.

    For work that may be repeated on another machine and must draw the same sample there.

    Parameters
    ----------
    key : bytes
        32 bytes, uniform and secret.
    name : bytes
        Name of the stream. Streams with different names or keys are independent to anyone who does not know
        the key.

    References
    ----------
    H. Krawczyk, P. Eronen, RFC 5869: HKDF-Expand with SHA-256 derives a key for AES-256 in counter mode from
    the key, the name and the index of the gibibyte.
    """

    def __init__(self, key: bytes, name: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"key must have 32 bytes, got {len(key)}")
        self._key, self._name = key, name
        self._gibibytes = itertools.count()
        self._stream = _CipherStream(self._next_key)

    def _next_key(self) -> bytes:
        info = self._name + next(self._gibibytes).to_bytes(8, "little")
        return HKDFExpand(SHA256(), length=48, info=info).derive(self._key)

    def fill(self, buffer: memoryview) -> int:
        """Overwrite `buffer`, a writable memoryview of bytes, and return its length in bytes."""
        return self._stream.fill(buffer)

    def __repr__(self) -> str:
        return "DerivedSource()"


class SeededSource(_Source):
    """Reproducible bytes from a numpy generator: **not private**, as the seed determines the noise.

    Parameters
    ----------
    generator : numpy.random.Generator
        Owned by the source from then on. It is read ahead by whole buffers.

    Notes
    -----
    A forked child would repeat the bytes of its parent. It gets a RuntimeError instead, and must create its
    own source.
    """

    kind: Literal["seeded"] = "seeded"

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._lock = threading.Lock()
        self._process = process_mark()

    def _check_process(self) -> None:
        if self._process != process_mark():
            raise RuntimeError(
                "this seeded source of random bytes belongs to the parent process, whose noise it would "
                "repeat; create one in each process, from different seeds"
            )

    def fill(self, buffer: memoryview) -> int:
        """Overwrite `buffer`, a writable memoryview of bytes, and return its length in bytes."""
        self._check_process()
        with self._lock:
            words = self._generator.integers(0, 1 << 64, size=-(-len(buffer) // 8), dtype=np.uint64)
        # Little-endian, so that a seed gives the same noise on every machine.
        buffer[:] = words.astype("<u8", copy=False).view(np.uint8).data[: len(buffer)]
        return len(buffer)

    def spawn(self, n: int) -> list[SeededSource]:
        """Return `n` independent sources; the same calls after the same seed give the same sources."""
        self._check_process()
        return [SeededSource(generator) for generator in self._generator.spawn(n)]

    def __repr__(self) -> str:
        return "SeededSource()"


Source: TypeAlias = CryptographicSource | SeededSource
RandomState: TypeAlias = (
    "int | np.random.Generator | np.random.SeedSequence | np.random.RandomState | Source | None"
)


def random_source(random_state: RandomState = None) -> Source:
    """Turn the `random_state` argument of the public functions into a source of random bytes.

    Parameters
    ----------
    random_state : None, int, numpy Generator, SeedSequence or RandomState, or a source
        None gives a cryptographic source. A nonnegative integer or a SeedSequence gives a seeded source, the
        same one each time. A Generator or RandomState provides 32 bytes to seed the source; this advances its
        state, so two uses of the same object differ. A source is returned as it is.

    Returns
    -------
    CryptographicSource or SeededSource
        Its attribute ``kind`` is ``"cryptographic"`` or ``"seeded"``. Only the former gives privacy.

    Raises
    ------
    TypeError
        For any other object.
    ValueError
        For a negative integer.
    """
    if random_state is None:
        return CryptographicSource()
    if isinstance(random_state, CryptographicSource | SeededSource):
        return random_state
    return SeededSource(np.random.Generator(np.random.PCG64DXSM(_seed_sequence(random_state))))


def _seed_sequence(random_state: object) -> np.random.SeedSequence:
    """Return a new sequence, so that spawning from it does not change the caller's."""
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.SeedSequence(
            random_state.entropy, spawn_key=random_state.spawn_key, pool_size=random_state.pool_size
        )
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return np.random.SeedSequence(int.from_bytes(random_state.bytes(32), "little"))
    try:
        seed = operator.index(random_state)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            "random_state must be None (cryptographic noise), an integer, or a numpy Generator, "
            f"SeedSequence or RandomState; got {type(random_state).__name__}"
        ) from None
    if seed < 0:
        raise ValueError(f"random_state must be a non-negative integer, got {seed}")
    return np.random.SeedSequence(seed)


def random_bits(random_state: RandomState | RandomBits = None) -> RandomBits:
    """Return the random bits for the exact samplers; RandomBits are returned as they are.

    See :func:`random_source` for `random_state` and what it raises.
    """
    if isinstance(random_state, RandomBits):
        return random_state
    return RandomBits(random_source(random_state))
