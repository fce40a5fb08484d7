import numpy as np
import pytest

from dperm.accounting import gaussian_delta, gaussian_sigma
from dperm.accounting import permutation_sensitivity as ps


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_positions_follow_the_recursion(average, batch_size):
    steps = 60 // batch_size
    moves = ps.position_sensitivities(60, 0.1, 0.03, batch_size=batch_size, average=average)
    for s in range(1, steps + 1):
        distance, seen = 0.0, []
        for step in range(1, steps + 1):
            seen.append(distance)
            if step == s:
                distance += 0.1 / batch_size
            elif distance > 0.0:
                distance = np.hypot(distance, 0.03)
        expected = np.mean(seen) if average else distance
        assert moves[s - 1] == pytest.approx(expected, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("average", [False, True])
def test_first_position_is_the_pass_sensitivity(average):
    moves = ps.position_sensitivities(1000, 0.02, 0.02, average=average)
    assert moves[0] == pytest.approx(
        ps.permutation_pass_sensitivity(1000, 1, 0.02, 0.02, average=average), rel=1e-12
    )
    assert np.all(np.diff(moves) <= 0.0)
    assert np.all(ps.position_sensitivities(1000, 0.02, 0.02, radius=0.1) <= 0.2)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6)])
@pytest.mark.parametrize("average", [False, True])
def test_saving_for_the_absolute_loss(epsilon, delta, average):
    """Averaging over the order lowers sigma by 12-17 % at n = 1000."""
    fixed = ps.permutation_pass_sensitivity(1000, 1, 0.02, 0.02, average=average)
    sigma = ps.averaged_order_sigma(epsilon, delta, 1000, 0.02, 0.02, average=average)
    saving = 1.0 - sigma / gaussian_sigma(epsilon, delta, fixed)
    assert 0.115 < saving < 0.175


def test_calibrated_to_the_mean():
    sigma = ps.averaged_order_sigma(0.5, 1e-5, 300, 0.02, 0.02)
    moves = ps.position_sensitivities(300, 0.02, 0.02)
    mean = np.mean([gaussian_delta(0.5, sigma, float(m)) if m > 0.0 else 0.0 for m in moves])
    assert mean == pytest.approx(1e-5, rel=1e-6)


def test_grouped_positions_are_an_upper_bound():
    exact = ps.averaged_position_sigma(1.0, 1e-6, ps.position_sensitivities(5000, 0.02, 0.02).tolist())
    grouped = ps.averaged_order_sigma(1.0, 1e-6, 5000, 0.02, 0.02)
    assert exact <= grouped <= 1.002 * exact


def test_refusals():
    with pytest.raises(ValueError, match="divide"):
        ps.position_sensitivities(10, 0.1, 0.0, batch_size=3)
    with pytest.raises(ValueError, match="one step"):
        ps.averaged_order_sigma(1.0, 1e-6, 4, 0.1, 0.0, batch_size=4)
