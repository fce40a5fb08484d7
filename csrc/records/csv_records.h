/* Where the records of a CSV text end.
 *
 * A quoted cell begins with a quote that is the first character of the cell, and ends with the next
 * single quote; two quotes in a row stand for one. In cells that do not begin with a quote, quotes
 * are ordinary characters. A line end outside quoted cells ends a record. */
#ifndef DPERM_CSV_RECORDS_H
#define DPERM_CSV_RECORDS_H

#include <stdint.h>

struct csv_ends {
    int64_t first;  /* behind the first record with its line end; 0 without a complete one */
    int64_t last;   /* behind the last one */
    int64_t open;   /* place of the quote of a cell that does not end in the text, or -1 */
    int64_t behind; /* place of a character that follows the end of a quoted cell directly, or -1 */
    int broken;     /* whether a quoted cell contains a line end */
};

/* Scans a text that starts with a record, up to a character behind a quoted cell. */
void csv_record_ends(const char *text, int64_t size, char delimiter, struct csv_ends *ends_out);

#endif
