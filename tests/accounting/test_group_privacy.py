import pytest

from dperm.accounting import gaussian_delta, gaussian_sigma
from dperm.accounting.pure_composition import group_privacy_target
from reference.group_privacy import group_privacy


@pytest.mark.parametrize("hops", [1, 2, 5])
@pytest.mark.parametrize("target", [(0.1, 1e-5), (2.0, 1e-8), (0.0, 1e-3)])
def test_target_is_met_and_hardly_missed(hops, target):
    epsilon, delta = group_privacy(*group_privacy_target(*target, hops), hops)
    assert epsilon <= target[0]
    assert delta <= target[1]
    assert (epsilon, delta) == pytest.approx(target, rel=1e-10)


def test_a_delta_too_small_for_double_precision_becomes_zero():
    assert group_privacy_target(3000.0, 1e-6, 3)[1] == 0.0


def test_two_hops_cover_a_gaussian_release():
    sigma = gaussian_sigma(*group_privacy_target(2.0, 1e-6))
    assert gaussian_delta(2.0, sigma, 2.0) <= 1e-6
