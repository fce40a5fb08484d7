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

/* Adds number k to the last piece, or begins a new one. */
static void add_number(struct tabular_matrix *table, int64_t k, int begins) {
    const int64_t column = table->numeric_columns[k];
    const int slot = slot_of(table, column);
    if (!begins) {
        struct number_piece *last = &table->pieces[table->n_pieces - 1];
        const int lane = last->first_lane + last->n_lanes;
        if (column == last->first_column + last->n_lanes && lane < UNIT_DOUBLES &&
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

static void add_segments(struct tabular_matrix *table) {
    int64_t k = 0, j = 0;
    while (k < table->n_numeric || j < table->n_categorical) {
        const int64_t first_piece = table->n_pieces;
        const int64_t next = j < table->n_categorical ? table->first_columns[j] : INT64_MAX;
        for (int begins = 1; k < table->n_numeric && table->numeric_columns[k] < next; begins = 0)
            add_number(table, k++, begins);
        sort_pieces(table->pieces + first_piece, table->n_pieces - first_piece);
        const int64_t number = k < table->n_numeric ? table->numeric_columns[k] : INT64_MAX;
        while (j < table->n_categorical && table->first_columns[j] < number)
            j++;
        const struct tabular_segment segment = {table->n_pieces, j};
        table->segments[table->n_segments++] = segment;
    }
}

static void add_entries(struct tabular_matrix *table) {
    for (int64_t j = 0, entry = 0; j < table->n_categorical; j++) {
        table->first_entries[j] = entry;
        for (int64_t code = 0; code < table->sizes[j]; code++)
            table->slots[entry++] = slot_of(table, table->first_columns[j] + code);
        table->slots[entry++] = 0; /* of weight 0 */
    }
}

int plan_tabular(struct tabular_matrix *table) {
    table->n_pieces = table->n_segments = 0;
    table->n_entries = table->n_columns - table->n_numeric + table->n_categorical;
    table->pieces = malloc((size_t)(table->n_numeric + 1) * sizeof *table->pieces);
    table->segments = malloc((size_t)(table->n_categorical + 1) * sizeof *table->segments);
    table->first_entries = malloc((size_t)(table->n_categorical + 1) * sizeof(int64_t));
    table->slots = calloc((size_t)entries_with_spare(table), sizeof(int32_t));
    table->memory = calloc(1, sizeof *table->memory);
    if (!table->pieces || !table->segments || !table->first_entries || !table->slots ||
        !table->memory)
        return -1;
    add_segments(table);
    add_entries(table);
    return 0;
}

void free_tabular_plan(struct tabular_matrix *table) {
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

static void put_categories(const struct tabular_matrix *table, int64_t place, double *row) {
    const int64_t at = place * table->n_categorical;
    for (int64_t j = 0; j < table->n_categorical; j++) {
        const int64_t code = code_at(table, at + j);
        if (code < table->sizes[j])
            row[table->first_columns[j] + code] = 1.0;
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
        put_categories(table, place, row);
    }
}
