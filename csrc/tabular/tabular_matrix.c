/* See tabular_matrix.h. */
#include <stdlib.h>
#include <string.h>

#include "tabular/nonzero_columns.h"
#include "tabular/tabular_matrix.h"

enum { ROWS_AHEAD = 4, LINE_BYTES = 64 };

static int slot_of(const struct tabular_matrix *table, int64_t column) {
    const struct slot_map map = slot_map_of(table->n_columns, UNIT_DOUBLES);
    return (int)dense_slot(&map, UNIT_DOUBLES, column);
}

/* Adds number k, of a dense column, to the last piece, or begins a new one. */
static void add_number(struct tabular_matrix *table, int64_t k, int64_t column, int begins) {
    const int slot = slot_of(table, column);
    if (!begins) {
        struct number_piece *last = &table->pieces[table->n_pieces - 1];
        const int lane = last->first_lane + last->n_lanes;
        if (column == last->first_column + last->n_lanes &&
            k == last->first_number + last->n_lanes && lane < UNIT_DOUBLES &&
            slot == last->accumulator * UNIT_DOUBLES + lane) {
            last->n_lanes++;
            return;
        }
    }
    const struct number_piece piece = {k, column, slot / UNIT_DOUBLES, slot % UNIT_DOUBLES, 1};
    table->pieces[table->n_pieces++] = piece;
}

/* Sorts by accumulator, stably: pieces of one accumulator are added in a row, in column order. */
static void sort_pieces(struct number_piece *pieces, int64_t count) {
    for (int64_t k = 1; k < count; k++) {
        const struct number_piece piece = pieces[k];
        int64_t at = k;
        for (; at > 0 && pieces[at - 1].accumulator > piece.accumulator; at--)
            pieces[at] = pieces[at - 1];
        pieces[at] = piece;
    }
}

/* number_at: the number of each dense column, -1 in one-hot columns. */
static void add_segments(struct tabular_matrix *table, const int64_t *number_at) {
    int64_t column = 0, hot = 0;
    while (column < table->n_columns) {
        const int64_t first_piece = table->n_pieces;
        for (int begins = 1; column < table->n_columns && number_at[column] >= 0; begins = 0) {
            add_number(table, number_at[column], column, begins);
            column++;
        }
        sort_pieces(table->pieces + first_piece, table->n_pieces - first_piece);
        while (hot < table->n_one_hot && table->first_columns[table->one_hot[hot]] == column)
            column += table->sizes[table->one_hot[hot++]];
        const struct tabular_segment segment = {table->n_pieces, hot};
        table->segments[table->n_segments++] = segment;
    }
}

/* Sorts the columns of codes into one-hot and mapped ones, and counts numbers and entries. */
static void sort_columns(struct tabular_matrix *table) {
    table->n_numbers = table->n_numeric;
    table->n_mapped = table->n_one_hot = table->n_entries = 0;
    for (int64_t j = 0; j < table->n_categorical; j++) {
        table->first_entries[j] = 0;
        if (table->maps && table->maps[j]) {
            const struct mapped_column mapped = {j, table->sizes[j], table->widths[j],
                                                 table->n_numbers, table->maps[j]};
            table->mapped[table->n_mapped++] = mapped;
            table->n_numbers += mapped.width;
        } else {
            table->one_hot[table->n_one_hot++] = j;
            table->first_entries[j] = table->n_entries;
            table->n_entries += table->sizes[j] + 1;
        }
    }
}

static void add_entries(struct tabular_matrix *table) {
    for (int64_t hot = 0, entry = 0; hot < table->n_one_hot; hot++) {
        const int64_t j = table->one_hot[hot];
        for (int64_t code = 0; code < table->sizes[j]; code++)
            table->slots[entry++] = slot_of(table, table->first_columns[j] + code);
        table->slots[entry++] = 0; /* of weight 0 */
    }
}

static void place_numbers(struct tabular_matrix *table, int64_t *number_at) {
    for (int64_t column = 0; column < table->n_columns; column++)
        number_at[column] = -1;
    for (int64_t k = 0; k < table->n_numeric; k++)
        table->number_columns[k] = table->numeric_columns[k];
    for (int64_t m = 0; m < table->n_mapped; m++)
        for (int64_t k = 0; k < table->mapped[m].width; k++)
            table->number_columns[table->mapped[m].first_number + k] =
                table->first_columns[table->mapped[m].place] + k;
    for (int64_t k = 0; k < table->n_numbers; k++)
        number_at[table->number_columns[k]] = k;
}

int plan_tabular(struct tabular_matrix *table) {
    const size_t codes = (size_t)table->n_categorical + 1;
    table->n_pieces = table->n_segments = 0;
    table->mapped = malloc(codes * sizeof *table->mapped);
    table->one_hot = malloc(codes * sizeof *table->one_hot);
    table->first_entries = malloc(codes * sizeof *table->first_entries);
    table->segments = malloc(codes * sizeof *table->segments);
    table->memory = calloc(1, sizeof *table->memory);
    if (!table->mapped || !table->one_hot || !table->first_entries || !table->segments ||
        !table->memory)
        return -1;
    sort_columns(table);
    int64_t *number_at = malloc((size_t)table->n_columns * sizeof *number_at);
    table->number_columns = malloc((size_t)(table->n_numbers + 1) * sizeof(int64_t));
    table->pieces = malloc((size_t)(table->n_numbers + 1) * sizeof *table->pieces);
    table->slots = calloc((size_t)entries_with_spare(table), sizeof(int32_t));
    const int ready = number_at && table->number_columns && table->pieces && table->slots;
    if (ready) {
        place_numbers(table, number_at);
        add_segments(table, number_at);
        add_entries(table);
    }
    free(number_at);
    return ready ? 0 : -1;
}

void free_tabular_plan(struct tabular_matrix *table) {
    free(table->mapped);
    free(table->one_hot);
    free(table->number_columns);
    free(table->pieces);
    free(table->segments);
    free(table->first_entries);
    free(table->slots);
    if (table->memory)
        free_nonzero_columns(atomic_load(&table->memory->nonzero));
    free(table->memory);
}

/* Counts a pass; returns whether it is the second one. */
static int is_second(atomic_int *passes) {
    return atomic_load(passes) < 2 && atomic_fetch_add(passes, 1) == 1;
}

const struct nonzero_columns *nonzero_columns_of(const struct tabular_matrix *table) {
    return atomic_load_explicit(&table->memory->nonzero, memory_order_acquire);
}

void prepare_pass(const struct tabular_matrix *table, int64_t n_rows, int n_threads) {
    struct pass_memory *memory = table->memory;
    if (is_second(&memory->passes))
        atomic_store(&memory->nonzero, find_nonzero_columns(table, n_rows, n_threads));
}

/* Prefetches a row at a random place. */
static void prefetch_tabular(const struct tabular_matrix *table, int64_t place) {
    const int64_t bytes = table->n_numeric * table->number_bytes;
    const char *numeric = (const char *)table->numeric + place * bytes;
    for (int64_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(numeric + at);
    __builtin_prefetch((const char *)table->codes +
                       place * table->n_categorical * table->code_bytes);
}

static void put_numbers(const struct tabular_matrix *table, int64_t place, double *row) {
    for (int64_t j = 0; j < table->n_numeric; j++)
        row[table->numeric_columns[j]] = number_at(table, place * table->n_numeric + j);
}

static void put_codes(const struct tabular_matrix *table, int64_t place, double *row) {
    const int64_t at = place * table->n_categorical;
    for (int64_t hot = 0; hot < table->n_one_hot; hot++) {
        const int64_t j = table->one_hot[hot], code = code_at(table, at + j);
        if (code < table->sizes[j])
            row[table->first_columns[j] + code] = 1.0;
    }
    for (int64_t m = 0; m < table->n_mapped; m++) {
        const struct mapped_column *mapped = &table->mapped[m];
        const float *numbers = mapped_numbers(mapped, code_at(table, at + mapped->place));
        for (int64_t k = 0; k < mapped->width; k++)
            row[table->first_columns[mapped->place] + k] = (double)numbers[k];
    }
}

void expand_tabular(const void *matrix, const int64_t *places, int64_t first, int64_t count,
                    void *x_out) {
    const struct tabular_matrix *table = matrix;
    double *row = x_out;
    for (int64_t k = 0; k < count; k++, row += table->n_columns) {
        const int64_t place = places ? places[k] : first + k;
        if (places && k + ROWS_AHEAD < count)
            prefetch_tabular(table, places[k + ROWS_AHEAD]);
        memset(row, 0, (size_t)table->n_columns * sizeof *row);
        put_numbers(table, place, row);
        put_codes(table, place, row);
    }
}
