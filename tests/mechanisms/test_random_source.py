import copy
import hmac
import os
import pickle
import threading
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from dperm._kernels import samplers
from dperm._kernels.samplers import RandomBits
from dperm.mechanisms import random_source as module
from dperm.mechanisms import rounded_gaussian
from dperm.mechanisms.random_source import (
    CryptographicSource,
    DerivedSource,
    SeededSource,
    random_bits,
    random_source,
)
from reference.bit_reader import BitReader, ScriptedSource
from reference.threads import in_threads

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def read(source, size=64):
    buffer = bytearray(size)
    assert source.fill(memoryview(buffer)) == size
    return bytes(buffer)


SEEDED = {
    "int": lambda: 5,
    "numpy int": lambda: np.int64(5),
    "Generator": lambda: np.random.default_rng(5),
    "SeedSequence": lambda: np.random.SeedSequence(5),
    "spawned SeedSequence": lambda: np.random.SeedSequence(5).spawn(2)[1],
    "RandomState": lambda: np.random.RandomState(5),
}


def test_default_is_cryptographic():
    assert random_source().kind == "cryptographic"
    assert read(random_source()) != read(random_source())


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_seeded_runs_repeat(make):
    assert random_source(make()).kind == "seeded"
    first, second = (rounded_gaussian(3.0, 1.0, 20_000, random_state=make()) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", ["Generator", "RandomState"])
def test_a_generator_moves_on(kind):
    generator = SEEDED[kind]()
    assert read(random_source(generator)) != read(random_source(generator))


def test_a_seed_sequence_stays_as_it_is():
    sequence = np.random.SeedSequence(5)
    random_source(sequence).spawn(3)
    assert sequence.n_children_spawned == 0
    assert read(random_source(sequence)) == read(random_source(5))


def test_other_seeds_give_other_bytes():
    assert len({read(random_source(seed)) for seed in range(50)}) == 50


@pytest.mark.parametrize("bad", ["5", 5.0, [1, 2], object(), np.random])
def test_other_types(bad):
    with pytest.raises(TypeError, match="random_state must be None"):
        random_source(bad)


def test_negative_seed():
    with pytest.raises(ValueError, match="-1"):
        random_source(-1)


def test_sources_and_bits_pass_through():
    source = random_source(1)
    bits = random_bits(source)
    assert random_source(source) is source
    assert random_bits(bits) is bits
    assert bits.source is source


@pytest.mark.parametrize("random_state", [None, 3])
def test_spawned_sources_differ(random_state):
    source = random_source(random_state)
    family = [source, *source.spawn(3), *source.spawn(2)]
    assert {s.kind for s in family} == {source.kind}
    assert len({read(s) for s in family}) == 6


def test_spawned_seeded_sources_repeat():
    first, second = ([read(s) for s in random_source(3).spawn(2)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("make", [CryptographicSource, lambda: random_source(1), lambda: random_bits(1)])
def test_no_copies(make):
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="repeat"):
            duplicate(make())


@given(st.lists(st.integers(0, 200), max_size=12))
def test_bytes_are_aes_256_in_counter_mode(sizes):
    keys = [bytes(range(32)), bytes(16)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.os, "urandom", lambda n: next(k for k in keys if len(k) == n))
        source = CryptographicSource()
    stream = b"".join(read(source, size) for size in sizes)
    expected = Cipher(algorithms.AES(keys[0]), modes.CTR(keys[1])).encryptor().update(bytes(sum(sizes)))
    assert stream == expected


def test_key_changes_after_a_fixed_volume(monkeypatch):
    monkeypatch.setattr(module, "_BYTES_PER_KEY", 1024)
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(module.os, "urandom", lambda n: asked.append(n) or urandom(n))
    source = CryptographicSource()
    chunks = {read(source, 256) for _ in range(12)}
    assert asked == [32, 16] * 3
    assert len(chunks) == 12


def expanded(key, info):
    """HKDF-Expand of RFC 5869 with SHA-256: 48 bytes."""
    first = hmac.digest(key, info + b"\x01", "sha256")
    return first + hmac.digest(key, first + info + b"\x02", "sha256")[:16]


def test_a_derived_source_repeats_the_bytes_of_its_name(monkeypatch):
    monkeypatch.setattr(module, "_BYTES_PER_KEY", 1024)
    key = bytes(range(32))
    got = read(DerivedSource(key, b"a name"), 1024)
    assert read(DerivedSource(key, b"a name"), 1024) == got
    source = DerivedSource(key, b"a name")
    stream = b"".join(read(source, 256) for _ in range(8))
    expected = b""
    for gibibyte in range(2):
        own = expanded(key, b"a name" + gibibyte.to_bytes(8, "little"))
        expected += Cipher(algorithms.AES(own[:32]), modes.CTR(own[32:])).encryptor().update(bytes(1024))
    assert stream == expected
    assert stream[:1024] == got


def test_derived_sources_of_other_names_and_keys_differ():
    keys = [bytes(32), bytes(31) + b"\x01"]
    streams = {read(DerivedSource(key, name), 64) for key in keys for name in (b"a", b"b", b"")}
    assert len(streams) == 6
    with pytest.raises(ValueError, match="32 bytes"):
        DerivedSource(bytes(16), b"a")
    with pytest.raises(TypeError, match="repeat"):
        pickle.dumps(DerivedSource(bytes(32), b"a"))
    assert repr(DerivedSource(bytes(32), b"a")) == "DerivedSource()"


# --- RandomBits ---


def test_words_are_the_bytes_of_the_source():
    source = ScriptedSource(tail_seed=1)
    words = samplers.uniform_words(RandomBits(source), (50, 20))
    reader = BitReader(source.given)
    assert words.ravel().tolist() == [reader.word() for _ in range(1000)]


def test_short_uses_ask_for_few_bytes():
    source = ScriptedSource(tail_seed=1)
    samplers.uniform_words(RandomBits(source), 1)
    assert len(source.given) <= 256


class Failure(Exception):
    pass


class SometimesFailing:
    """Fails at the given calls; hands out 0, 1, 2, ... as big words otherwise."""

    def __init__(self, failing):
        self.failing, self.calls, self.next = failing, 0, 0

    def fill(self, buffer):
        self.calls += 1
        if self.calls in self.failing:
            raise Failure(self.calls)
        count = len(buffer) // 8
        halves = np.arange(self.next, self.next + count, dtype=np.uint64)
        words = np.stack([halves >> np.uint64(32), halves & np.uint64(0xFFFFFFFF)], axis=1).astype("<u4")
        buffer[:] = words.tobytes()
        self.next += count
        return len(buffer)


@pytest.mark.parametrize(
    "draw",
    [
        lambda bits: samplers.uniform_words(bits, 100_000),
        lambda bits: samplers.rounded_gaussian(bits, 3, 1, 100_000),
        lambda bits: samplers.bernoulli_exp(bits, 1, 1, 1_000_000),
        lambda bits: [samplers.exponential_mechanism(bits, np.arange(5), 1, 1) for _ in range(100_000)],
    ],
)
@pytest.mark.parametrize("good_bytes", [0, 256, 256 + 512 + 1024])
def test_failure_of_the_source_comes_out_of_the_sampler(draw, good_bytes):
    error = Failure("no entropy")
    script = np.random.default_rng(0).bytes(good_bytes)
    with pytest.raises(Failure) as caught:
        draw(RandomBits(ScriptedSource(script, error=error)))
    assert caught.value is error


def test_no_byte_is_used_again_after_a_failure():
    bits = RandomBits(SometimesFailing({1, 3}))
    with pytest.raises(Failure):
        samplers.uniform_words(bits, 10)
    first = samplers.uniform_words(bits, 10)
    with pytest.raises(Failure):
        samplers.uniform_words(bits, 100)
    second = samplers.uniform_words(bits, 1000)
    assert first.tolist() == list(range(10))
    assert second.tolist() == list(range(32, 1032))  # the rest of the first 256 bytes is gone


@pytest.mark.parametrize("answer", [None, 0, 255])
def test_a_source_that_does_not_fill_the_buffer_is_an_error(answer):
    class Short:
        def fill(self, buffer):
            return answer

    with pytest.raises(RuntimeError, match="must write and return 256 bytes"):
        samplers.uniform_words(RandomBits(Short()), 1)


def test_keyboard_interrupt_in_the_source_comes_out():
    with pytest.raises(KeyboardInterrupt):
        samplers.uniform_words(RandomBits(ScriptedSource(error=KeyboardInterrupt())), 1)


@pytest.mark.parametrize("random_state", [None, 6])
def test_threads_get_distinct_words(random_state):
    bits = random_bits(random_state)
    results = []
    in_threads(lambda _: results.extend(samplers.uniform_words(bits, n) for n in [1, 7, 1000] * 60), 4)
    words = np.concatenate(results)
    assert words.size == 4 * 60 * 1008
    assert np.unique(words).size == words.size  # a repetition by chance has probability 2e-9
    if random_state is not None:
        assert set(words) == set(samplers.uniform_words(random_bits(random_state), words.size))


# --- fork ---


def in_child(function):
    """Bytes returned by `function` in a forked child; b"" if it raised RuntimeError or did not return."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, function())
        except RuntimeError as error:
            os.write(writer, b"error: " + str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@needs_fork
def test_forked_children_have_streams_of_their_own():
    bits = random_bits()
    samplers.uniform_words(bits, 3)  # leaves bytes in the buffer
    streams = [in_child(lambda: samplers.uniform_words(bits, 200).tobytes()) for _ in range(2)]
    streams.append(samplers.uniform_words(bits, 200).tobytes())
    words = np.frombuffer(b"".join(streams), np.uint64)
    assert words.size == 600
    assert np.unique(words).size == 600


@needs_fork
def test_a_source_read_directly_changes_its_key_in_a_child():
    source = CryptographicSource()
    assert in_child(lambda: read(source)) != read(source)


@needs_fork
def test_seeded_noise_is_refused_in_a_child():
    bits = random_bits(1)
    expected = samplers.uniform_words(random_bits(1), 13)[3:]
    samplers.uniform_words(bits, 3)
    answer = in_child(lambda: samplers.uniform_words(bits, 10).tobytes())
    assert answer.startswith(b"error: this seeded source")
    assert np.array_equal(samplers.uniform_words(bits, 10), expected)


@needs_fork
def test_fork_while_another_thread_draws():
    # The child must neither wait for a lock whose holder does not exist nor use a half-changed state.
    bits = random_bits()
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            samplers.uniform_words(bits, 200_000)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        time.sleep(0.05)
        streams = [in_child(lambda: samplers.uniform_words(bits, 100).tobytes()) for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    words = np.frombuffer(b"".join(streams), np.uint64)
    assert np.unique(words).size == 500


def test_seeded_source_takes_a_generator():
    assert read(SeededSource(np.random.Generator(np.random.PCG64DXSM(5)))) == read(random_source(5))
