"""Laplacian smoothing compared with the Fourier transform, the dense system and known vectors."""

import numpy as np
import pytest

from dperm._kernels import row_kernels
from dperm.accounting import smoothing_beta, smoothing_gamma
from dperm.mechanisms import laplacian_smoothing
from reference.numpy_sgd import smoothing_by_fft, smoothing_dense

SIGMAS = [1e-9, 1e-3, 0.5, 1.0, 30.0, 1e4, 1e8, 1e14]


@pytest.mark.parametrize(
    ("v", "sigma", "expected"),
    [
        ([1, 0, 0, 0, 0], 1.0, [0.4545454545, 0.1818181818, 0.09090909091, 0.09090909091, 0.1818181818]),
        ([1, 2, 3, 4], 0.5, [1.833333333, 2.166666667, 2.833333333, 3.166666667]),
        ([1, -1, 1, -1, 1, -1], 3.0, [0.07692307692, -0.07692307692] * 3),
        ([5.0], 7.0, [5.0]),
        ([1.0, 0.0], 1.0, [0.6, 0.4]),
    ],
)
def test_known_vectors(v, sigma, expected):
    np.testing.assert_allclose(laplacian_smoothing(v, sigma), expected, rtol=1e-9)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 1023, 1024, 1025, 2049, 5000])
def test_agrees_with_the_fourier_transform(instruction_set, sigma, d):
    v = np.random.default_rng(d).normal(size=d)
    expected = smoothing_by_fft(v, sigma) if d > 1 else v
    np.testing.assert_allclose(laplacian_smoothing(v, sigma), expected, atol=1e-14)


@pytest.mark.parametrize("d", [3, 10, 200])
def test_agrees_with_the_dense_system(d):
    v = np.random.default_rng(d).normal(size=d)
    for sigma in (0.1, 1.0, 50.0):
        np.testing.assert_allclose(laplacian_smoothing(v, sigma), smoothing_dense(v, sigma), atol=1e-13)


@pytest.mark.parametrize("sigma", [0.5, 1e4])
def test_the_system_is_solved(sigma):
    """The residual, on a ring of many chunks."""
    v = np.random.default_rng(0).normal(size=300_001)
    u = laplacian_smoothing(v, sigma)
    residual = u - sigma * (np.roll(u, 1) - 2 * u + np.roll(u, -1)) - v
    assert np.abs(residual).max() < 1e-14 * (1 + 4 * sigma)
    assert u.mean() == pytest.approx(v.mean(), abs=1e-15)


@pytest.mark.parametrize("sigma", [1.0, 1e6])
def test_threads_and_instruction_sets_do_not_change_a_bit(keep_instruction_set, sigma):
    v = np.random.default_rng(0).normal(size=70_003)
    results = [laplacian_smoothing(v, sigma, n_threads=threads) for threads in (1, 2, 3)]
    for name in row_kernels.instruction_sets():
        row_kernels.use_instruction_set(name)
        results.append(laplacian_smoothing(v, sigma))
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_axes():
    v = np.random.default_rng(0).normal(size=(5, 40, 3))
    along = laplacian_smoothing(v, 2.0, axis=1)
    both = laplacian_smoothing(v, 2.0, axis=(0, 1))
    for i in range(5):
        for k in range(3):
            np.testing.assert_allclose(along[i, :, k], smoothing_by_fft(v[i, :, k], 2.0), atol=1e-14)
    # Product of the two operators, in two dimensions of the Fourier transform.
    symbol = [1 + 8.0 * np.sin(np.pi * np.arange(n) / n) ** 2 for n in (5, 40)]
    spectrum = np.fft.fft2(v, axes=(0, 1)) / np.outer(*symbol)[:, :, None]
    np.testing.assert_allclose(both, np.fft.ifft2(spectrum, axes=(0, 1)).real, atol=1e-14)
    assert both.flags.c_contiguous
    many = laplacian_smoothing(np.random.default_rng(0).normal(size=(2000, 50)), 1.0, n_threads=2)
    assert many.shape == (2000, 50)


@pytest.mark.parametrize(("sigma", "d"), [(1.0, 5), (1.0, 1000), (3.0, 1000), (2.0, 3)])
def test_closed_forms_of_what_is_left_of_noise(sigma, d):
    response = laplacian_smoothing(np.eye(d), sigma)
    assert np.trace(response) / d == pytest.approx(smoothing_gamma(sigma, d), rel=1e-12)
    assert np.trace(response @ response) / d == pytest.approx(smoothing_beta(sigma, d), rel=1e-12)


def test_without_smoothing_it_is_a_copy():
    v = np.arange(4.0)
    u = laplacian_smoothing(v, 0.0)
    assert u.tolist() == v.tolist()
    assert not np.shares_memory(u, v)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], -1.0), "sigma"),
        (([1.0, 2.0], np.inf), "sigma"),
        (([1.0, 2.0], np.nan), "sigma"),
        (([], 1.0), "v must"),
        ((3.0, 1.0), "v must"),
        (([1.0, 2.0], 1.0, 1), "axis"),
        (([1.0, 2.0], 1.0, 0, 0), "n_threads"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        laplacian_smoothing(*arguments)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="v must be an array of real numbers"):
        laplacian_smoothing([1.0 + 1.0j, 2.0], 1.0)
