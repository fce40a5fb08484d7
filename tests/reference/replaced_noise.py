"""Wrong samplers, which tests must detect."""

from contextlib import contextmanager

from dperm.mechanisms.hooks import replace_noise, samplers


@contextmanager
def scaled_noise(factor):
    """Multiplies the scale of all noise inside a with statement; nested factors multiply."""

    def scaled(sampler):
        return lambda bits, scale, *rest: sampler(bits, factor * scale, *rest)

    before = {name: getattr(samplers(), name) for name in ("gaussian", "gaussian_ahead", "norm_laplace")}
    with replace_noise(**{name: scaled(sampler) for name, sampler in before.items()}):
        yield
