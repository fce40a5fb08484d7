"""Chi-square test of integer samples against exact probabilities.

FALSE_ALARM is the probability that a correct sampler fails a call. Seeds in the tests are fixed, so that a
test that passes once always passes; tests of this module show that it detects errors of a few per cent.
"""

import numpy as np
from scipy.stats import binomtest, chi2

FALSE_ALARM = 1e-6
SMALLEST_EXPECTED = 20


def chi_square_p_value(counts, probabilities):
    """p-value of `counts` against cell `probabilities`.

    Probabilities are scaled to add up to 1. Cells with a small expectation, for which the chi-square
    approximation of the tail at 1e-6 is poor, are merged with their neighbours.
    """
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    n = counts.sum()
    merged_counts, merged_expected = [0.0], [0.0]
    for count, expected in zip(counts, n * probabilities, strict=True):
        if merged_expected[-1] >= SMALLEST_EXPECTED:
            merged_counts.append(0.0)
            merged_expected.append(0.0)
        merged_counts[-1] += count
        merged_expected[-1] += expected
    if merged_expected[-1] < SMALLEST_EXPECTED and len(merged_expected) > 1:
        last_count, last_expected = merged_counts.pop(), merged_expected.pop()
        merged_counts[-1] += last_count
        merged_expected[-1] += last_expected
    observed, expected = np.array(merged_counts), np.array(merged_expected)
    expected *= n / expected.sum()
    if len(observed) == 1:
        return 1.0
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), len(observed) - 1)


def assert_fits(counts, probabilities):
    """Chi-square test of the counts of cells."""
    assert chi_square_p_value(counts, probabilities) > FALSE_ALARM


def assert_uniform(values, n_cells):
    """Integers in 0 .. `n_cells` - 1 are uniform."""
    assert_fits(np.bincount(values, minlength=n_cells), np.full(n_cells, 1 / n_cells))


def assert_rate(events, draws, probability):
    """Binomial test of a number of events among independent draws."""
    assert binomtest(int(events), draws, probability).pvalue > FALSE_ALARM


def counts_within(integers, largest):
    """How often each of -largest .. largest was drawn; asserts that nothing is larger."""
    integers = np.asarray(integers).astype(np.int64)
    assert abs(integers).max() <= largest
    return np.bincount(integers + largest, minlength=2 * largest + 1)
