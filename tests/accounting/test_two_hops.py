import math

import pytest

from dperm.accounting import gaussian_delta, gaussian_sigma, group_privacy, group_privacy_target
from dperm.accounting import objective_perturbation as op


def test_two_hops():
    epsilon, delta = group_privacy(1.0, 1e-6)
    assert epsilon == 2.0
    assert delta == pytest.approx((1.0 + math.e) * 1e-6, rel=1e-11)
    assert group_privacy(0.5, 1e-6, 1) == (0.5, 1e-6)
    assert group_privacy(1.0, 0.0, 3) == (3.0, 0.0)
    assert group_privacy(400.0, 1e-6, 3) == (1200.0, 1.0)


@pytest.mark.parametrize("hops", [1, 2, 5])
@pytest.mark.parametrize("target", [(0.1, 1e-5), (2.0, 1e-8), (0.0, 1e-3)])
def test_target_is_the_inverse(hops, target):
    epsilon, delta = group_privacy(*group_privacy_target(*target, hops), hops)
    assert epsilon <= target[0]
    assert delta <= target[1]
    assert (epsilon, delta) == pytest.approx(target, rel=1e-10)


def test_two_hops_cover_a_gaussian_release():
    sigma = gaussian_sigma(1.0, 1e-6)
    epsilon, delta = group_privacy(1.0, 1e-6)
    assert gaussian_delta(epsilon, sigma, 2.0) <= delta


def test_replaced_objective_is_opt_in():
    with pytest.raises(ValueError, match="two hops"):
        op.replaced_objective_sigma(1.0, 1e-5, 1.0, 0.25, 1.0)
    sigma = op.replaced_objective_sigma(1.0, 1e-5, 1.0, 0.25, 1.0, allow_unproved=True)
    assert sigma == pytest.approx(2.0 * 4.697072980, rel=1e-9)
    assert gaussian_delta(1.0 - math.log(1.25), sigma, 2.0) == pytest.approx(1e-5, rel=1e-6)
    with pytest.raises(ValueError, match="no noise"):
        op.replaced_objective_sigma(0.1, 1e-5, 1.0, 0.25, 1.0, allow_unproved=True)


def test_two_hops_need_more_noise_than_the_unproved_bound():
    each = group_privacy_target(1.0, 1e-5)
    proved = op.objective_sigma(*each, 1.0, 0.25, 1.0, monotone=True)
    assert proved > op.replaced_objective_sigma(1.0, 1e-5, 1.0, 0.25, 1.0, allow_unproved=True)
