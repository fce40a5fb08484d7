"""Accountants compared on 200 random configurations of DP-SGD: epsilon, time, failures.

    python bench/peers/accountants.py [--plans 200]

A plan is a sampling rate of Poisson batches, a noise multiplier, a number of steps, and a delta. A failure is
an exception or a result that is not a number. A result is invalid if it is below the epsilon of privacy
losses rounded *down* (dp-accounting's optimistic estimate). Needs what the tests need: pip install '.[test]'.
"""

import argparse
import math
import time
import warnings

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

from dperm.accounting import sgd_epsilon

N = 10**6


def plans(count):
    """Random (sampling rate, noise multiplier, steps, delta)."""
    rng = np.random.default_rng(0)
    while count:
        rate, steps = 10.0 ** rng.uniform(-4, -0.3), int(10.0 ** rng.uniform(0, 4))
        # So that epsilon, roughly the rate times that of unsampled Gaussian noise, lies between 0.05 and 10.
        multiplier = max(0.5, rate * math.sqrt(steps) * 10.0 ** rng.uniform(-0.3, 1.5))
        if multiplier < 100.0:
            yield round(rate * N) / N, multiplier, steps, 10.0 ** rng.uniform(-10, -4)
            count -= 1


def ours(accountant):
    """An accountant of dperm."""
    return lambda q, z, steps, delta: sgd_epsilon(
        z, delta, batch_size=q * N, n_samples=N, steps=steps, accountant=accountant
    )


def theirs(make):
    """An accountant of dp-accounting."""

    def epsilon(q, z, steps, delta):
        event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
        return make().compose(dp_accounting.SelfComposedDpEvent(event, steps)).get_epsilon(delta)

    return epsilon


def prv(q, z, steps, delta):
    """prv-accountant's upper bound."""
    mechanism = PoissonSubsampledGaussianMechanism(sampling_probability=q, noise_multiplier=z)
    accountant = PRVAccountant(
        prvs=[mechanism], max_self_compositions=[steps], eps_error=0.05, delta_error=delta / 1000
    )
    return accountant.compute_epsilon(delta, [steps])[2]


def lower_bound(q, z, steps, delta):
    """Epsilon of the losses rounded down: the true one is at least as large."""
    one = pld.from_gaussian_mechanism(
        z,
        pessimistic_estimate=False,
        value_discretization_interval=1e-3,
        sampling_prob=q,
        use_connect_dots=False,
    )
    return one.self_compose(steps).get_epsilon_for_delta(delta)


ACCOUNTANTS = {
    "dperm, pld (a bound that counts every rounding)": ours("pld"),
    "dperm, rdp": ours("rdp"),
    "dp-accounting, PLD": theirs(PLDAccountant),
    "dp-accounting, RDP": theirs(RdpAccountant),
    "prv-accountant, upper bound": prv,
}


def tried(epsilon, plan):
    """The result, NaN if it failed, and the seconds it took."""
    start = time.perf_counter()
    try:
        found = float(epsilon(*plan))
    except Exception:  # counted as a failure
        found = math.nan
    return found, time.perf_counter() - start


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plans", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    all_plans = list(plans(options.plans))
    least = np.array([tried(lower_bound, plan)[0] for plan in all_plans])
    found = {name: np.array([tried(each, plan) for plan in all_plans]) for name, each in ACCOUNTANTS.items()}
    reference = next(iter(found.values()))[:, 0]
    columns = [
        "",
        "epsilon over dperm's: median, 5 to 95 %",
        "seconds: median, longest",
        "failures",
        "invalid",
    ]
    lines = [
        f"{len(all_plans)} plans, `python bench/peers/accountants.py`\n",
        f"| {' | '.join(columns)} |",
        "|---|---|---|---|---|",
    ]
    for name, results in found.items():
        epsilon, seconds = results.T
        fine = np.isfinite(epsilon)
        low, middle, high = np.quantile((epsilon / reference)[fine], [0.05, 0.5, 0.95])
        below = int(np.sum(epsilon[fine] < least[fine] * (1 - 1e-9)))
        ratio = f"{middle:.3f}, {low:.3f} to {high:.3f}"
        times = f"{np.median(seconds):.3f}, {seconds.max():.2f}"
        lines.append(f"| {name} | {ratio} | {times} | {np.sum(~fine)} | {below} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
