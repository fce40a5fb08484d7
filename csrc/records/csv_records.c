/* See csv_records.h. */
#include "records/csv_records.h"

#include <string.h>

static int is_line_end(char c) {
    return c == '\n' || c == '\r';
}

/* The quote that ends a quoted cell, from the character behind the quote that begins it on. */
static const char *closing_quote(const char *from, const char *end, int *broken) {
    for (; from < end; from++) {
        if (*from != '"')
            *broken |= is_line_end(*from);
        else if (from + 1 == end || from[1] != '"')
            return from;
        else
            from++;
    }
    return NULL;
}

/* Notes the line ends from `from` to `to`, which are outside quoted cells. */
static void note_line_ends(const char *text, const char *from, const char *to,
                           struct csv_ends *ends) {
    const char *first = from, *last = to;
    while (last > from && !is_line_end(last[-1]))
        last--;
    if (last == from)
        return;
    ends->last = last - text;
    if (ends->first == 0) {
        while (!is_line_end(*first))
            first++;
        ends->first = first + 1 - text;
    }
}

void csv_record_ends(const char *text, int64_t size, char delimiter, struct csv_ends *ends_out) {
    *ends_out = (struct csv_ends){.open = -1, .behind = -1};
    if (size == 0)
        return;
    const char *end = text + size, *outside = text, *quote = text;
    while ((quote = memchr(quote, '"', (size_t)(end - quote))) != NULL) {
        if (quote > text && quote[-1] != delimiter && !is_line_end(quote[-1])) {
            quote++; /* within a cell that does not begin with a quote */
            continue;
        }
        note_line_ends(text, outside, quote, ends_out);
        const char *closing = closing_quote(quote + 1, end, &ends_out->broken);
        if (closing == NULL) {
            ends_out->open = quote - text;
            return;
        }
        outside = quote = closing + 1;
        if (outside < end && *outside != delimiter && !is_line_end(*outside)) {
            ends_out->behind = outside - text;
            return;
        }
    }
    note_line_ends(text, outside, end, ends_out);
}
