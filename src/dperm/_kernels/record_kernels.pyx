# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Bindings of the kernels for records: arrays in, arrays out, without the GIL. No arithmetic.

Callers (``dperm.data``) have checked types, shapes and values.
"""

import os

import numpy as np

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    MOST_PARTS = 8


def distinct_records(list parts, int64_t n_records, int n_threads, key=None):
    """First record and multiplicity of each distinct record, in runs of ascending first records.

    parts: pairs ``(items, starts)`` of a C-ordered array of items along its first axis, and either None, if
    record i is item i, or int64 (n_records + 1,), if it is items ``starts[i]`` to ``starts[i + 1] - 1``.
    The hash is keyed randomly in each call; for tests the repeated ``key`` is used instead.
    """
    cdef record_part c_parts[MOST_PARTS]
    cdef records data
    cdef const unsigned char[::1] item_bytes
    cdef const int64_t[::1] starts
    if not 0 < len(parts) <= MOST_PARTS:
        raise ValueError(f"a record has 1 to {MOST_PARTS} parts, got {len(parts)}")
    kept = []
    for p, (items, part_starts) in enumerate(parts):
        item_bytes = items.reshape(-1).view(np.uint8)
        kept.append(items)
        c_parts[p].bytes = <const char *>&item_bytes[0] if item_bytes.shape[0] else NULL
        c_parts[p].width = items.dtype.itemsize * (items.size // len(items) if len(items) else 1)
        c_parts[p].starts = NULL
        if part_starts is not None:
            starts = part_starts
            c_parts[p].starts = &starts[0]
    data.parts, data.n_parts, data.n_records = c_parts, <int>len(parts), n_records
    cdef int64_t key_words
    with nogil:
        key_words = record_key_words(&data)
    cdef const uint64_t[::1] words
    if key is None:
        words = np.frombuffer(os.urandom(8 * key_words), dtype=np.uint64).copy()
    else:
        words = np.resize(np.asarray(key, dtype=np.uint64), key_words)
    cdef distinct_records_type *found
    with nogil:
        found = distinct_records_find(&data, &words[0], n_threads)
    if found == NULL:
        raise MemoryError("no memory for the table of distinct records")
    cdef int64_t n_found = distinct_records_count(found)
    first, counts = np.empty(n_found, dtype=np.int64), np.empty(n_found, dtype=np.int64)
    cdef int64_t[::1] first_out = first, counts_out = counts
    distinct_records_read(found, &first_out[0], &counts_out[0])
    distinct_records_free(found)
    return first, counts


def csv_ends_of(const unsigned char[::1] text, int delimiter):
    """The fields of ``csv_ends`` for a text that starts with a record: see csrc/records/csv_records.h."""
    cdef csv_ends ends
    cdef const char *start = NULL
    if text.shape[0]:
        start = <const char *>&text[0]
    with nogil:
        csv_record_ends(start, text.shape[0], <char>delimiter, &ends)
    return ends.first, ends.last, ends.open, ends.behind, bool(ends.broken)


cdef class RecordIndex:
    """Finds the row of a record, where row r represents ``counts[r]`` consecutive records."""

    cdef record_index index
    cdef object ends, guide

    def __init__(self, const int64_t[::1] ends):
        """ends: cumulative sum of the counts; at least one row and one record."""
        cdef int64_t[::1] guide
        self.ends = np.asarray(ends)
        self.index.ends = &ends[0]
        self.index.n_rows = ends.shape[0]
        self.index.n_records = ends[ends.shape[0] - 1]
        self.guide = np.empty(record_guide_size(&self.index), dtype=np.int64)
        guide = self.guide
        self.index.guide = &guide[0]
        with nogil:
            record_guide_fill(&self.index)

    def rows(self, const int64_t[::1] records):
        """The row of each record; the number of rows for a record that does not exist."""
        result = np.empty(records.shape[0], dtype=np.int64)
        cdef int64_t[::1] rows_out = result
        if records.shape[0]:
            with nogil:
                rows_of_records(&self.index, &records[0], records.shape[0], &rows_out[0])
        return result
