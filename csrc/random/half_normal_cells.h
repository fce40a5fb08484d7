/*
 * Cells of the half-normal distribution, from half_normal_cells.py. Cell m is [m, m + 1) / 16; of
 * the cells drawn by half_normal.c it has probability proportional to exp(-m^2 / 512).
 */
#ifndef DPERM_HALF_NORMAL_CELLS_H
#define DPERM_HALF_NORMAL_CELLS_H

#include <stdint.h>

enum { HALF_NORMAL_DIGITS = 16, HALF_NORMAL_CELLS = 425 };

/* Column m: the first 512 bits of the probability of cells 0 .. m, the most significant 32 first.
 * The last column is all ones. */
extern const uint32_t half_normal_cells[HALF_NORMAL_DIGITS][HALF_NORMAL_CELLS];

/* The first cell m with half_normal_cells[0][m] >= top << 24, for each `top`. */
extern const uint8_t half_normal_first_cell[256];

#endif
