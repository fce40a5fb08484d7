"""Writes half_normal_cells.c: python half_normal_cells.py OUTPUT.

The probabilities that a number falls into cell 0, 1, .. of width 1/16, if cell m has probability proportional
to exp(-m^2 / 512), the density of the half-normal distribution at its lower end.
"""

import sys

DIGITS = 16  # of 32 bits each: HALF_NORMAL_DIGITS of half_normal_cells.h
BITS = 32 * DIGITS
PRECISION = BITS + 128


def exp_bounds() -> tuple[int, int]:
    """Bounds on ``2^PRECISION exp(-1/512)``: partial sums of an alternating series."""
    low = high = term = 1 << PRECISION
    for n in range(1, 100):
        term = -(-term // (512 * n))  # rounded up, by less than 1 in each of the 99 terms
        low, high = (high - term, high) if n % 2 else (low, low + term)
    return low - 99, high + 99


def cumulative_digits() -> list[int]:
    """``floor(2^BITS P(cell <= m))`` for m = 0, 1, .. up to the first that is ``2^BITS - 1``.

    Integer interval arithmetic: all bits are correct, or an assertion fails.
    """

    def times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] * b[0] >> PRECISION, -(-a[1] * b[1] >> PRECISION)

    one = 1 << PRECISION
    factor = exp_bounds()  # exp(-(2m + 1) / 512)
    step = times(factor, factor)
    weight, total, sums = (one, one), (0, 0), []
    while weight[0] > 0:
        total = total[0] + weight[0], total[1] + weight[1]
        sums.append(total)
        weight, factor = times(weight, factor), times(factor, step)
    beyond = 2 * weight[1]  # by then, each weight is less than half of the one before
    cumulative = []
    for low, high in sums:
        digits = (low << BITS) // (total[1] + beyond)
        assert digits == min((high << BITS) // total[0], (1 << BITS) - 1)
        cumulative.append(digits)
        if digits == (1 << BITS) - 1:
            return cumulative
    raise AssertionError("weights end before the sum is 1")


def source() -> str:
    """The text of half_normal_cells.c."""
    cumulative = cumulative_digits()
    rows = [[value >> (BITS - 32 * (i + 1)) & 0xFFFFFFFF for value in cumulative] for i in range(DIGITS)]
    first = [next(m for m, digit in enumerate(rows[0]) if digit >= top << 24) for top in range(256)]
    lines = [
        "/* Written by half_normal_cells.py. */",
        '#include "random/half_normal_cells.h"',
        f"_Static_assert(HALF_NORMAL_DIGITS == {DIGITS} && HALF_NORMAL_CELLS == {len(cumulative)}, "
        '"as written");',
        "const uint32_t half_normal_cells[HALF_NORMAL_DIGITS][HALF_NORMAL_CELLS] = {",
        *("{" + ", ".join(f"0x{digit:08X}" for digit in row) + "}," for row in rows),
        "};",
        "const uint8_t half_normal_first_cell[256] = {" + ", ".join(map(str, first)) + "};",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(source())
