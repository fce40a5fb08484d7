"""The formulas of the accounting package as written in the papers, in multiple precision."""

import mpmath as mp

DIGITS = 60


def gaussian_delta(epsilon, mu, digits=DIGITS):
    """Balle and Wang 2018, Theorem 8, term by term."""
    with mp.workdps(digits):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def zcdp_log_delta(rho, epsilon, iterations=180):
    """Canonne, Kamath and Steinke 2020, Corollary 13, minimised over the order by ternary search."""
    with mp.workdps(DIGITS):
        rho, epsilon = mp.mpf(rho), mp.mpf(epsilon)

        def exponent(log_x):
            x = mp.exp(log_x)
            a = 1 + x
            return x * (a * rho - epsilon) + a * mp.log1p(-1 / a) - mp.log(x)

        low, high = mp.mpf(-80), mp.mpf(80)
        for _ in range(iterations):
            third = (high - low) / 3
            if exponent(low + third) < exponent(high - third):
                high -= third
            else:
                low += third
        return exponent((low + high) / 2)


def symmetric_pair_mu(eta):
    """GDP parameter of the two-point pair with log-ratios eta/2 and -eta/2, by bisection."""
    with mp.workdps(DIGITS):
        target = 1 / (1 + mp.exp(mp.mpf(eta) / 2))
        low, high = mp.mpf(0), mp.mpf(100)
        for _ in range(200):
            middle = (low + high) / 2
            if mp.ncdf(-middle / 2) > target:
                low = middle
            else:
                high = middle
        return (low + high) / 2


def bounded_range_exact_rho(eta):
    """Largest Kullback-Leibler divergence of an eta-bounded-range pair: x - 1 - log x."""
    with mp.workdps(DIGITS):
        x = eta / mp.expm1(mp.mpf(eta))
        return x - 1 - mp.log(x)
