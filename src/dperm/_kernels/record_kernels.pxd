# The C headers csv_records.h, distinct_records.h and record_index.h, declared to Cython.
from libc.stdint cimport int64_t, uint64_t


cdef extern from "records/csv_records.h" nogil:
    struct csv_ends:
        int64_t first
        int64_t last
        int64_t open
        int64_t behind
        int broken

    void csv_record_ends(const char *text, int64_t size, char delimiter, csv_ends *ends_out)


cdef extern from "records/distinct_records.h" nogil:
    struct record_part:
        const char *bytes
        int64_t width
        const int64_t *starts

    struct records:
        const record_part *parts
        int n_parts
        int64_t n_records

    struct distinct_records_type "distinct_records":
        pass

    int64_t record_key_words(const records *)
    distinct_records_type *distinct_records_find(const records *, const uint64_t *key, int n_threads)
    int64_t distinct_records_count(const distinct_records_type *)
    void distinct_records_read(const distinct_records_type *, int64_t *first_out, int64_t *count_out)
    void distinct_records_free(distinct_records_type *)


cdef extern from "records/record_index.h" nogil:
    struct record_index:
        const int64_t *ends
        int64_t n_rows
        int64_t n_records
        int shift
        int64_t *guide

    int64_t record_guide_size(record_index *)
    void record_guide_fill(const record_index *)
    void rows_of_records(const record_index *, const int64_t *records, int64_t size,
                         int64_t *rows_out)
