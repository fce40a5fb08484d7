/* Finds the row that a record belongs to when rows represent several records each.
 *
 * Row r represents records ends[r - 1] .. ends[r] - 1 (from 0 for the first row). A guide of about
 * one entry per row narrows the binary search down to the rows of a few records. */
#ifndef DPERM_RECORD_INDEX_H
#define DPERM_RECORD_INDEX_H

#include <stdint.h>

struct record_index {
    const int64_t *ends; /* n_rows, ascending; equal for a row without records */
    int64_t n_rows, n_records;
    int shift;      /* guide[g] is the row of record g << shift */
    int64_t *guide; /* record_guide_size() */
};

/* Sets index->shift and returns the number of entries of the guide. */
int64_t record_guide_size(struct record_index *index);

void record_guide_fill(const struct record_index *index);

/* rows_out[i] = row of records[i], in any order; n_rows for a record out of range. */
void rows_of_records(const struct record_index *index, const int64_t *records, int64_t size,
                     int64_t *rows_out);

#endif
