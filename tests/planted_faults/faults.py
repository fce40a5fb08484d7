"""Faults to plant in the sources, and the tests that must fail because of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One change of the sources that would break the guarantee or the results.

    `text` occurs exactly once in the file. `caught_by` is as few tests as possible, as arguments of pytest.
    """

    what: str
    file: str
    text: str
    planted: str
    caught_by: str


GOLDEN = "tests/golden/test_golden.py::test_results_are_as_before"
PYTHON = [
    Fault(
        "a ledger is charged for the rounds that were drawn",
        "src/dperm/algorithms/rrpsgd.py",
        "counts=law.counts(),",
        "counts=[max(law.draw(bits) - 1, 1)] * 2,",
        "tests/algorithms/test_random_rounds_on_a_ledger.py::"
        "test_what_remains_does_not_depend_on_the_number_of_rounds",
    ),
    Fault(
        "the inner clip is 2^-20 too long",
        "src/dperm/objective/exact_sums.py",
        "return (clip - 0.5",
        "return (1.0 + 2.0**-20) * (clip - 0.5",
        "tests/objective/test_exact_sums.py::test_rounding_does_not_exceed_the_clip",
    ),
    Fault(
        "the inner clip leaves no slack for the error of a norm",
        "src/dperm/objective/exact_sums.py",
        "math.sqrt(dimension)) / (1.0 + slack)",
        "math.sqrt(dimension))",
        "tests/objective/test_exact_sums.py::test_rounding_does_not_exceed_the_clip",
    ),
    Fault(
        "a replaced record counts like an added one",
        "src/dperm/private_values/bounded.py",
        "2.0 * add_or_remove if replace_one is None",
        "add_or_remove if replace_one is None",
        "tests/test_bounded.py::test_sensitivities",
    ),
    Fault(
        "all epochs have the same permutation",
        "src/dperm/mechanisms/batches.py",
        "    while True:\n        order = permutation(bits, n_public)",
        "    order = permutation(bits, n_public)\n    while True:",
        "tests/mechanisms/test_batches.py::test_shuffled_batches_hold_a_record_once_an_epoch",
    ),
    Fault(
        "a fit that takes the whole ledger keeps its epsilon under the other relation",
        "src/dperm/accounting/ledger/account.py",
        " and relation == self.terms.neighbors",
        "",
        "tests/accounting/test_ledger_columns.py::TestOneRelation",
    ),
    Fault(
        "intervals count a quarter of the variance of noise",
        "src/dperm/algorithms/noisy_newton.py",
        "noisy = (of_gradients * size)",
        "noisy = (0.5 * of_gradients * size)",
        "tests/algorithms/test_noisy_newton.py::test_the_noise_of_the_weights_matches_the_covariance[add_or_remove]",
    ),
    Fault(
        "rounding errors of a composition are neglected",
        "src/dperm/accounting/pld/profiles.py",
        "ROUNDING = 2.0**-53",
        "ROUNDING = 0.0",
        "tests/accounting/test_composition.py::test_stated_error_of_a_power_covers_the_real_one",
    ),
    Fault(
        "the first iterates are averaged as well",
        "src/dperm/algorithms/whitened_gd.py",
        "if t > (1.0 - Default.TAIL) * schedule.steps:",
        "if t > 0:",
        f"{GOLDEN}[whitened_gd]",
    ),
    Fault(
        "a clip whose noise is harmless under a ridge term is halved",
        "src/dperm/algorithms/rules.py",
        "harmless = signal * math.sqrt(",
        "harmless = 0.5 * signal * math.sqrt(",
        f"{GOLDEN}[noisy_gd]",
    ),
    Fault(
        "a constant of a schedule is another one",
        "src/dperm/algorithms/defaults/constants.py",
        "STEP, STABLE = 0.7, 2.6",
        "STEP, STABLE = 0.71, 2.6",
        f"{GOLDEN}[whitened_gd]",
    ),
    Fault(
        "weights of records do not raise a Lipschitz constant",
        "src/dperm/losses/weighted.py",
        "return self.largest * self.loss.lipschitz(",
        "return self.loss.lipschitz(",
        "tests/objective/test_weights.py::test_constants_use_the_largest_weight",
    ),
    Fault(
        "the rate of a selection is rounded up",
        "src/dperm/mechanisms/selection.py",
        "math.floor(exact * ",
        "math.ceil(exact * ",
        "tests/mechanisms/test_selection.py::test_rate_is_exact_or_rounded_down",
    ),
    Fault(
        "a record in several cells of an evaluation counts once",
        "src/dperm/metrics/parts.py",
        "return squares * self.times_counted * super().squared_sensitivity(neighbors)",
        "return squares * super().squared_sensitivity(neighbors)",
        "tests/metrics/test_sensitivity.py::test_worst_records",
    ),
    Fault(
        "Gaussian noise is 1e-7 too small",
        "src/dperm/accounting/gaussian.py",
        "return sensitivity / mu * (1.0 +",
        "return sensitivity / mu * (1.0 - 1e-7 +",
        "tests/accounting/test_gaussian.py::test_calibration_meets_the_target_and_a_little_less_noise_misses_it",
    ),
    Fault(
        "a mean gradient moves as far for a replaced record as for an added one",
        "src/dperm/accounting/output_sensitivity.py",
        "sum_factor * lipschitz /",
        "sum_factor**0 * lipschitz /",
        "tests/accounting/test_sensitivities.py",
    ),
    Fault(
        "values of a column are published one record too early",
        "src/dperm/accounting/selection.py",
        "math.ceil(1.5 + sigma",
        "math.ceil(0.5 + sigma",
        "tests/accounting/test_stability.py::test_it_is_the_smallest_that_keeps_the_slack",
    ),
    Fault(
        "functions of a number are longer than the norm of a row allows",
        "src/dperm/data/schema/numeric.py",
        "(1.0 - 2.0**-26)",
        "(1.0 + 2.0**-20)",
        "tests/data/test_functions.py::test_the_squares_of_a_bin_sum_to_at_most_one_exactly",
    ),
]
#: These take a compiler, and seconds to minutes to build.
C = [
    Fault(
        "half-normal numbers are accepted as if they were 1/512 further out",
        "csrc/random/half_normal.c",
        "sure = 2 * (cell % 256)",
        "sure = 2 * (cell % 256) + 1",
        "tests/mechanisms/test_rounded_gaussian.py",
    ),
    Fault(
        "a logistic curvature is twice as large",
        "csrc/loss/loss_derivatives.h",
        "return odds / (",
        "return 2.0 * odds / (",
        f"{GOLDEN}[noisy_newton]",
    ),
    Fault(
        "the accumulators of a row of a table are paired in another order",
        "csrc/vector/lane_sums.h",
        "reversed * ACCUMULATORS + slot / lanes",
        "reversed * ACCUMULATORS + slot / lanes / 2 + slot / lanes % 2 * 2",
        "tests/kernels/test_tabular_rows.py::test_rows_with_counts_are_rows_repeated",
    ),
]
