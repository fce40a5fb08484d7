/* See record_index.h. */
#include "records/record_index.h"

int64_t record_guide_size(struct record_index *index) {
    index->shift = 0;
    while (index->n_records >> index->shift > index->n_rows)
        index->shift++;
    return (index->n_records >> index->shift) + 2;
}

void record_guide_fill(const struct record_index *index) {
    const int64_t last = index->n_records >> index->shift;
    int64_t row = 0;
    for (int64_t g = 0; g <= last; g++) {
        while (row < index->n_rows && index->ends[row] <= g << index->shift)
            row++;
        index->guide[g] = row;
    }
    index->guide[last + 1] = index->n_rows;
}

/* The first row in [low, high) that ends after the record, or `high`. */
static int64_t first_ending_behind(const int64_t *ends, int64_t low, int64_t high, int64_t record) {
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (ends[middle] > record)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void rows_of_records(const struct record_index *index, const int64_t *records, int64_t size,
                     int64_t *rows_out) {
    for (int64_t i = 0; i < size; i++) {
        const int64_t record = records[i];
        if (record < 0 || record >= index->n_records) {
            rows_out[i] = index->n_rows;
            continue;
        }
        const int64_t *guide = index->guide + (record >> index->shift);
        rows_out[i] = first_ending_behind(index->ends, guide[0], guide[1], record);
    }
}
