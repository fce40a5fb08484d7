/* Exact sums over strips of columns. Once per type of values. */

ALWAYS_INLINE void NAME(add_entry)(uint32_t place, REAL x, const REAL *restrict factors, REAL shift,
                                   int64_t *restrict sums) {
    UNSIGNED shift_bits, bits;
    const REAL rounded = factors[place >> 16] * x + shift;
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    memcpy(&bits, &rounded, sizeof bits);
    sums[place & 0xffff] += (INTEGER)(bits - shift_bits);
}

/* Entries [begin, end): sums[column] += round(factors[row] x / grid); rows and columns as places
 * tell them. */
ALWAYS_INLINE void NAME(add_entries)(const struct column_strips *strips, int64_t begin, int64_t end,
                                     const REAL *factors, REAL shift, int64_t *sums) {
    enum { AT_ONCE = 16 };
    const uint32_t *places = strips->places;
    const REAL *x = strips->values;
    const enum reading reading = strips->reading;
    int64_t k = begin;
    for (; k + AT_ONCE <= end; k += AT_ONCE) {
        ask_beyond(places + k, SPARSE_ENTRIES_AHEAD * sizeof *places, AT_ONCE * sizeof *places,
                   reading);
        ask_beyond(x + k, SPARSE_ENTRIES_AHEAD * sizeof *x, AT_ONCE * sizeof *x, reading);
#pragma GCC unroll 16
        for (int i = 0; i < AT_ONCE; i++)
            NAME(add_entry)(places[k + i], x[k + i], factors, shift, sums);
    }
    for (; k < end; k++)
        NAME(add_entry)(places[k], x[k], factors, shift, sums);
}

static void NAME(sum_strip)(const struct column_strips *strips, int64_t strip, const void *factors,
                            double grid, int64_t *sum_out) {
    const int64_t first = strips->first_column[strip], last = strips->first_column[strip + 1];
    const int64_t *start = strips->starts + strip * strips->n_slabs;
    const REAL shift = ROUNDING_SHIFT * (REAL)grid;
    memset(sum_out + first, 0, (size_t)(last - first) * sizeof *sum_out);
    for (int64_t slab = 0; slab < strips->n_slabs; slab++)
        NAME(add_entries)(strips, start[slab], start[slab + 1],
                          (const REAL *)factors + slab * SLAB_ROWS, shift, sum_out + first);
}
