"""Samplers that a mechanism must not get away with."""

from contextlib import contextmanager

from dperm.mechanisms.hooks import replace_noise, samplers


@contextmanager
def scaled_noise(factor):
    """Noise of so many times the scale that it had, inside a with statement; factors multiply."""

    def scaled(sampler):
        return lambda bits, scale, *rest: sampler(bits, factor * scale, *rest)

    before = {name: getattr(samplers(), name) for name in ("gaussian", "gaussian_ahead", "norm_laplace")}
    with replace_noise(**{name: scaled(sampler) for name, sampler in before.items()}):
        yield
