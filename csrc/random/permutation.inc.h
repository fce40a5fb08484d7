/* Fisher-Yates shuffle for one type of index. Parameters: INDEX, PERMUTATION_FILL (the function's
 * name). */
#if !defined(INDEX) || !defined(PERMUTATION_FILL)
#error "define INDEX and PERMUTATION_FILL"
#endif

/* From the end: position i is swapped with one of 0 .. i. */
int PERMUTATION_FILL(struct random_bits *bits, INDEX *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = (INDEX)i;
    size_t last = count;
    while (last-- > 1) {
        uint64_t chosen[BATCH];
        const size_t batch = last < BATCH ? last : BATCH;
        RANDOM_BITS_TRY(draw_batch(bits, last, batch, chosen));
        for (size_t b = 0; b < batch; b++)
            __builtin_prefetch(&out[chosen[b]], 1);
        for (size_t b = 0; b < batch; b++) {
            const INDEX moved = out[last - b];
            out[last - b] = out[chosen[b]];
            out[chosen[b]] = moved;
        }
        last -= batch - 1;
    }
    return RANDOM_BITS_OK;
}
