"""The bound of a composition is above the exact one, computed with 60 digits, and close to it."""

import math

import mpmath as mp
import numpy as np
import pytest

from accounting.high_precision import gaussian_delta as exact_gaussian
from dperm.accounting.pld import composition, profiles
from dperm.accounting.pld.composition import composed_epsilon, mean_composed_deltas
from dperm.accounting.pld.profiles import DiscreteLoss, coarse_float, dominating_loss


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def exact_power(masses, steps):
    """Coefficients of the power of a polynomial (J. C. P. Miller's recurrence, which loses digits)."""
    with mp.workdps(60 + steps):
        first, *others = [mp.mpf(float(mass)) for mass in masses]
        power = [first**steps]
        for n in range(1, steps * len(others) + 1):
            terms = ((k * (steps + 1) - n) * m * power[n - k] for k, m in enumerate(others, 1) if k <= n)
            power.append(mp.fsum(terms) / (n * first))
        return power


def exact_delta(loss, steps, epsilon):
    power, step, epsilon = exact_power(loss.masses, steps), mp.mpf(loss.step), mp.mpf(epsilon)
    losses = [step * (loss.lowest * steps + n) for n in range(len(power))]
    gains = (mass * (1 - mp.exp(epsilon - x)) for x, mass in zip(losses, power, strict=True) if x > epsilon)
    finite = mp.fsum(mp.mpf(float(mass)) for mass in loss.masses)
    return mp.fsum(gains) + (finite + mp.mpf(loss.infinite)) ** steps - finite**steps


def moments(loss):
    """Mean and variance of the finite losses of one step."""
    mean = float(loss.masses @ loss.losses)
    return mean, float(loss.masses @ loss.losses**2) - mean**2


def lattice_loss(seed, size, infinite=0.0):
    """A random loss distribution."""
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.ones(size))
    return DiscreteLoss(coarse_float(float(rng.uniform(0.01, 0.3))), -(size // 2), masses, infinite)


@pytest.mark.parametrize("steps", [2, 3, 7, 40])
@pytest.mark.parametrize("size", [2, 5, 12])
def test_any_loss_composed_a_few_times(size, steps):
    loss = lattice_loss(100 * size + steps, size)
    spread = math.sqrt(steps * float(loss.masses @ loss.losses**2))
    mean = steps * float(loss.masses @ loss.losses)
    for epsilon in (0.0, max(0.0, mean), max(0.0, mean + spread), max(0.0, mean) + 2 * spread):
        exact = exact_delta(loss, steps, epsilon)
        if exact > 0:
            bound = mean_composed_deltas(loss, np.array([steps]), np.array([epsilon]), float(exact))
            assert exact <= bound <= 1.002 * exact


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("deviations", [1, 4, 9, 14])
def test_error_is_relative_to_delta_however_small(seed, deviations):
    """1000 steps: delta goes down to 1e-50, far below the error of a plain transform."""
    loss, steps = lattice_loss(seed, 5), 1000
    mean, variance = moments(loss)
    epsilon = max(0.0, steps * mean + deviations * math.sqrt(steps * variance))
    exact = exact_delta(loss, steps, epsilon)
    assert deviations < 14 or exact < 1e-40
    bound = mean_composed_deltas(loss, np.array([steps]), np.array([epsilon]), float(exact))
    assert exact <= bound <= 1.002 * exact
    assert exact_delta(loss, steps, composed_epsilon(loss, steps, float(exact))) <= exact


def test_infinite_loss_and_the_mean_over_counts():
    loss, counts = lattice_loss(7, 4, infinite=1e-7), np.array([1, 5, 30, 200])
    exact = [exact_delta(loss, int(count), 3.0) for count in counts]
    bound = mean_composed_deltas(loss, counts, np.array([3.0]), float(sum(exact)) / 4)
    assert sum(exact) / 4 <= bound <= 1.002 * sum(exact) / 4


@pytest.mark.parametrize("seed", range(3))
def test_epsilon_far_below_the_mean_loss(seed):
    """There the best tilt is 0, which would count aliased copies of the distribution in full."""
    loss, steps = lattice_loss(seed, 5), 1000
    loss = loss._replace(lowest=loss.lowest + 1)
    mean, variance = moments(loss)
    epsilon = steps * mean - 3.0 * math.sqrt(steps * variance)
    for at in (max(epsilon, 0.0), max(epsilon, 0.0) + 1.0):
        exact = exact_delta(loss, steps, at)
        bound = mean_composed_deltas(loss, np.array([steps]), np.array([at]), 1e-6)
        assert exact <= bound <= 1.0001 * exact + 1e-9


def test_too_much_infinite_loss_gives_no_epsilon():
    assert composed_epsilon(lattice_loss(7, 4, infinite=1e-7), 30, 1e-6) == math.inf


@pytest.mark.parametrize(("cells", "steps"), [(16, 2), (64, 30), (64, 10_000), (256, 10**6)])
def test_stated_error_of_a_power_covers_the_real_one(cells, steps):
    """Against transforms with 60 digits; the estimate T 2^-53 would often be too small."""
    rng = np.random.default_rng(cells)
    # narrow, so that its power is not flat
    masses = np.array([0.3, 0.4, 0.3]) * (1.0 + 1e-3 * rng.random(3)) / steps
    masses[1] += 1.0 - masses.sum()
    power, error = composition._mean_power(masses, -1, np.array([steps]), cells, 0.0)
    roots = [mp.expjpi(2 * mp.mpf(k) / cells) for k in range(cells)]
    exact = [mp.mpf(float(mass)) for mass in masses]
    spectrum = [
        mp.fsum(mass * roots[k * (place - 1) % cells] for place, mass in enumerate(exact)) ** steps
        for k in range(cells)
    ]
    cell_masses = [
        mp.re(mp.fsum(value * roots[-k * cell % cells] for k, value in enumerate(spectrum))) / cells
        for cell in range(cells)
    ]
    found = mp.sqrt(mp.fsum((mp.mpf(float(p)) - e) ** 2 for p, e in zip(power, cell_masses, strict=True)))
    assert 0 < found <= error < 3 * steps * 2.0**-44 + 2.0**-38


@pytest.mark.parametrize("steps", [10_000, 40_000])
def test_low_frequencies_and_transforms_agree(monkeypatch, steps):
    """Two computations that share only the tilted masses."""
    counts, loss = np.array([steps // 2, steps]), lattice_loss(3, 12)
    mean, variance = moments(loss)
    epsilon = max(0.0, steps * mean + 5 * math.sqrt(steps * variance))
    low_calls, low = [], composition._low_frequencies

    def watched(*args):
        low_calls.append(low(*args))
        return low_calls[-1]

    monkeypatch.setattr(composition, "_low_frequencies", watched)
    first = mean_composed_deltas(loss, counts, np.array([epsilon]), 1e-8)
    assert low_calls[0] is not None
    monkeypatch.setattr(composition, "_low_frequencies", lambda *_: None)
    second = mean_composed_deltas(loss, counts, np.array([epsilon]), 1e-8)
    # the tail beyond the cells is 1e-4 of the target
    assert abs(first - second) < 1e-6 * second + 2e-12


@pytest.mark.parametrize("period", [2**10, 5000])
@pytest.mark.parametrize("seed", range(4))
def test_low_frequencies_are_right_and_the_others_negligible(seed, period):
    loss, steps = lattice_loss(seed, [3, 20, 40, 60][seed]), 20_000
    spectrum, errors = composition._low_frequencies(
        loss.masses, loss.lowest, np.array([steps]), period, 0.0, 2**20
    )
    assert spectrum.size < period // 2
    placed = np.zeros(period)
    np.add.at(placed, np.arange(loss.lowest, loss.lowest + loss.masses.size) % period, loss.masses)
    others = np.abs(np.fft.rfft(placed))[spectrum.size :]
    assert steps * np.log(others).max() < -75
    for k in (0, 1, 3, spectrum.size - 1):
        turn = mp.mpf(-2 * k) / period
        one = mp.fsum(
            mp.mpf(float(mass)) * mp.expjpi(turn * (loss.lowest + place))
            for place, mass in enumerate(loss.masses)
        )
        assert abs(mp.mpc(complex(spectrum[k])) - one**steps) <= errors[k]
    assert errors[0] < 1e-8


@pytest.mark.parametrize("shape", ["random", "rare", "smooth"])
@pytest.mark.parametrize("levels", [4, 11, 17])
def test_stated_error_of_a_transform_at_every_frequency(shape, levels):
    """Against transforms of twice the digits (x86: 64 bits), or an exact sum for few cells."""
    scipy_fft = pytest.importorskip("scipy.fft")
    if np.finfo(np.longdouble).eps > 2.0**-60:
        pytest.skip("no long double that is longer")
    cells = 2**levels
    rng = np.random.default_rng(levels)
    masses = {
        "random": rng.random(cells),
        "rare": rng.random(cells) * (rng.random(cells) < 0.2),
        "smooth": np.exp(-0.5 * ((np.arange(cells) - cells / 3) / (cells / 40)) ** 2),
    }[shape]
    masses /= masses.sum()
    error = np.abs(np.fft.rfft(masses) - scipy_fft.rfft(masses.astype(np.longdouble)))
    assert 0 < error.max() <= 10 * levels * 2.0**-53 * masses.sum()


MU = [1e-4, 0.02, 0.4, 1.5, 6.0]


def exact_profiles(scheme, q, mu):
    """Both directions, on epsilon >= 0."""
    q, mu = mp.mpf(q), mp.mpf(mu)

    def sampled(epsilon):
        return q * exact_gaussian(mp.log(1 + mp.expm1(epsilon) / q), mu)

    def reverse(epsilon):
        rest = 1 - mp.exp(epsilon) * (1 - q)
        return rest * exact_gaussian(mp.log(mp.exp(epsilon) * q / rest), mu) if rest > 0 else mp.mpf(0)

    def replaced(epsilon):
        inner = mp.log(1 + mp.expm1(epsilon) / q)
        t = mp.exp(epsilon - inner)
        return q * ((1 - t) * exact_gaussian(inner, mu) + t * exact_gaussian(inner, 2 * mu))

    return {
        "poisson_add_or_remove": (sampled, reverse),
        "poisson_replace_one": (replaced, replaced),
        "without_replacement_replace_one": (sampled, sampled),
    }[scheme]


@pytest.mark.parametrize("mu", MU)
@pytest.mark.parametrize("q", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize(
    "scheme", ["sampled_profile", "reversed_sampled_profile", "replaced_poisson_profile"]
)
def test_stated_relative_error_of_the_profiles(scheme, q, mu):
    profile = getattr(profiles, scheme)(q, mu)
    pair = "poisson_replace_one" if scheme.startswith("replaced") else "poisson_add_or_remove"
    exact = exact_profiles(pair, q, mu)[scheme.startswith("reversed")]
    error = profiles._relative_error(mu)
    inner = mu * mu / 2 + mu * np.linspace(-3.0, 30.0, 40)
    for epsilon in np.log1p(q * np.expm1(np.minimum(inner[inner > 0], 600.0))).tolist():
        if scheme.startswith("reversed"):
            epsilon = min(epsilon, -math.log1p(-q) * (1 - 1e-9))
        true, computed = exact(mp.mpf(epsilon)), float(profile(np.array([epsilon]))[0])
        if true > 1e-250:
            assert computed >= true * (1 - error)
            # the reversed profile is rounded up where its support ends
            assert scheme.startswith("reversed") or computed <= true * (1 + error)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("mu", [0.02, 0.4, 1.5])
@pytest.mark.parametrize(
    "scheme", ["poisson_add_or_remove", "poisson_replace_one", "without_replacement_replace_one"]
)
def test_the_grid_dominates_the_profile_everywhere(scheme, mu, direction):
    q = 0.05
    one = getattr(profiles, scheme)(q, mu)
    profile, reverse = one.pairs[direction % len(one.pairs)]
    exact, exact_reverse = exact_profiles(scheme, q, mu)[:: 1 - 2 * (direction % len(one.pairs))]
    step = coarse_float(0.6 * one.spread)
    top = int(min(3.0, 5 * mu * (1 + mu)) / step)
    bottom = int(0.5 * top)
    loss = dominating_loss(profile, reverse, one.error, step, top, bottom)
    masses, losses = [mp.mpf(float(m)) for m in loss.masses], [mp.mpf(float(x)) for x in loss.losses]
    assert mp.fsum(masses) + mp.mpf(loss.infinite) >= 1
    rng = np.random.default_rng(0)
    places = [0, 1, -1, top, -bottom, *rng.integers(-bottom, top, 12).tolist()]
    points = [step * place for place in places] + rng.uniform(
        -1.5 * bottom * step, 1.5 * top * step, 8
    ).tolist()
    closest = mp.inf
    for point in points:
        x, size = mp.mpf(point), abs(mp.mpf(point))
        true = exact(x) if x >= 0 else 1 - mp.exp(-size) + mp.exp(-size) * exact_reverse(size)
        gains = (m * (1 - mp.exp(x - at)) for m, at in zip(masses, losses, strict=True) if at > x)
        ours = mp.fsum(gains) + mp.mpf(loss.infinite)
        assert ours >= true
        closest = min(closest, ours / true - 1 if true > 0 else closest)
    assert closest < 1e-8  # at the points of the grid


def test_the_grid_at_a_negative_epsilon():
    profile = profiles.sampled_profile(1e-3, 2 / 1.4)
    loss = dominating_loss(profile, profile, 1e-12, 2.0**-6, 400, 64)
    value = float(np.dot(loss.masses, np.maximum(-np.expm1(-1.0 - loss.losses), 0.0))) + loss.infinite
    assert value == pytest.approx(0.6321205591, rel=1e-9)
