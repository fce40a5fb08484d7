"""Samplers that a mechanism must not get away with."""

from dperm.mechanisms.hooks import replace_noise
from dperm.mechanisms.noise import gaussian_draw, gaussian_integers, norm_laplace_integers


def scaled_noise(factor):
    """Noise of so many times the scale that was charged, inside a with statement."""
    honest = {
        "gaussian": gaussian_integers,
        "gaussian_ahead": gaussian_draw,
        "norm_laplace": norm_laplace_integers,
    }

    def scaled(sampler):
        return lambda bits, scale, *rest: sampler(bits, factor * scale, *rest)

    return replace_noise(**{name: scaled(sampler) for name, sampler in honest.items()})
