/* The loop over blocks, for one type of index. Parameters: INDEX, POISSON_SAMPLE (the function's
 * name). */
#if !defined(INDEX) || !defined(POISSON_SAMPLE)
#error "define INDEX and POISSON_SAMPLE"
#endif

int POISSON_SAMPLE(struct random_bits *bits, const struct bulk_table *table,
                   struct poisson_sample *sample, INDEX *out, size_t capacity) {
    uint8_t lanes[POISSON_BLOCK];
    uint64_t masks[POISSON_BLOCK / 64];
    const uint8_t threshold = (uint8_t)(sample->threshold >> 56);
    size_t count = sample->count;
    while (sample->next_row < sample->n_rows && capacity - count >= POISSON_BLOCK) {
        const uint64_t first = sample->next_row, left = sample->n_rows - first;
        const size_t rows = left < POISSON_BLOCK ? (size_t)left : POISSON_BLOCK;
        RANDOM_BITS_TRY(draw_masks(bits, table, rows, threshold, lanes, masks));
        for (size_t m = 0; 64 * m < rows; m++)
            for (uint64_t rest = masks[m]; rest != 0; rest &= rest - 1) {
                const size_t row = 64 * m + (unsigned)__builtin_ctzll(rest);
                bool is_in = true;
                if (lanes[row] == threshold)
                    RANDOM_BITS_TRY(resolve_tie(bits, sample->threshold, &is_in));
                out[count] = (INDEX)(first + row);
                count += is_in;
            }
        sample->next_row = first + rows;
    }
    sample->count = count;
    return RANDOM_BITS_OK;
}
