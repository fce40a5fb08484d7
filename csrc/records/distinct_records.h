/* Distinct records of a data set and their multiplicities, by hashing in one pass, in memory
 * proportional to the number of distinct records.
 *
 * A record consists of parts, which are runs of bytes: the row of a matrix, a label. Records are
 * equal if all their bytes are; they are always compared in full, not only by hash.
 *
 * Records chosen without knowledge of the key cannot make the pass slow. Two different records
 * share the NH hash with probability at most 2^-31 (Black, Halevi, Krawczyk, Krovetz and Rogaway,
 * "UMAC: fast and secure message authentication", CRYPTO 1999). Simple tabulation of the hash makes
 * the expected number of probes of linear probing constant (Patrascu and Thorup, "The power of
 * simple tabulation hashing", JACM 59(3), 2012). */
#ifndef DPERM_DISTINCT_RECORDS_H
#define DPERM_DISTINCT_RECORDS_H

#include <stdint.h>

struct record_part {
    const char *bytes;
    int64_t width;         /* bytes of an item, at least 1 */
    const int64_t *starts; /* record i is items starts[i] .. starts[i + 1] - 1; NULL: item i */
};

struct records {
    const struct record_part *parts;
    int n_parts;
    int64_t n_records;
};

struct distinct_records;

/* Number of random 64-bit words in the key for these records. */
int64_t record_key_words(const struct records *records);

/* The distinct records; NULL when memory ran out. The result depends on the records alone. */
struct distinct_records *distinct_records_find(const struct records *records, const uint64_t *key,
                                               int n_threads);

int64_t distinct_records_count(const struct distinct_records *distinct);

/* Index of the first record of each kind, and the size of the kind: in several runs, each in
 * ascending order of `first`. */
void distinct_records_read(const struct distinct_records *distinct, int64_t *first_out,
                           int64_t *count_out);

void distinct_records_free(struct distinct_records *distinct);

#endif
