/* Names of passes and their arguments, and shapes of results. See run_pass.h. */
#include <string.h>

#include "passes/run_pass.h"

#define AT(field) offsetof(struct pass, field)

const struct pass_argument pass_arguments[] = {
    {"w", AT(w), ARGUMENT_REALS, 0, 0},
    {"inner_clip", AT(inner_clip), ARGUMENT_REAL, 0, 0},
    {"inner_bound", AT(inner_clip), ARGUMENT_REAL, 0, 0}, /* of rows as integers */
    {"grid", AT(grid), ARGUMENT_REAL, 0, 0},
    {"direction", AT(direction), ARGUMENT_REALS, 0, 0},
    {"steps", AT(steps), ARGUMENT_REALS, AT(n_steps), 0},
    {"clip", AT(clip), ARGUMENT_REAL, 0, 0},
    {"stride", AT(stride), ARGUMENT_REAL, 0, 0},
    {"intercept_stride", AT(intercept_stride), ARGUMENT_REAL, 0, 0},
    {"target_factor", AT(target_factor), ARGUMENT_REAL, 0, 0},
    {"target_centre", AT(target_centre), ARGUMENT_REAL, 0, 0},
    {"target_limit", AT(target_limit), ARGUMENT_REAL, 0, 0},
    {"upper", AT(upper), ARGUMENT_FLAG, 0, 0},
    {"matrix", AT(matrix), ARGUMENT_REALS, AT(n_out), 1},
    {"column_scales", AT(column_scales), ARGUMENT_REALS, 0, 0},
    {"n_bins", AT(n_bins), ARGUMENT_INTEGER, 0, 0},
    {"image_factor", AT(image_factor), ARGUMENT_INTEGER, 0, 0},
    {"n_images", AT(n_images), ARGUMENT_INTEGER, 0, 0},
    {"image_unit", AT(image_unit), ARGUMENT_REAL, 0, 0},
    {"image_bound", AT(image_bound), ARGUMENT_REAL, 0, 0},
    {"largest_square", AT(largest_square), ARGUMENT_REAL, 0, 0},
    {"largest_curvature", AT(largest_curvature), ARGUMENT_REAL, 0, 0},
    {"with_loss", AT(with_loss), ARGUMENT_FLAG, 0, 0},
    {"precise", AT(precise), ARGUMENT_FLAG, 0, 0},
    {NULL, 0, ARGUMENT_REAL, 0, 0},
};

int pass_kind_of(const char *name) {
    static const char *const names[] = {
#define NAME_OF_PASS(name) #name,
        FOR_EACH_PASS(NAME_OF_PASS)
#undef NAME_OF_PASS
    };
    for (int kind = 0; kind < N_PASSES; kind++)
        if (strcmp(name, names[kind]) == 0)
            return kind;
    return -1;
}

static struct result integers(int64_t size) {
    return (struct result){ADD_INTEGERS, 1, {size, 1}, 0};
}

static struct result number_of_each_row(const struct dense_rows *rows) {
    return (struct result){WRITE_ROWS, 1, {rows->n_rows, 1}, 0};
}

/* One number per weight. */
static struct result like_weights(const struct dense_rows *rows, const struct pass *pass,
                                  enum combine combine, int with_loss) {
    const int64_t dimension = rows->n_columns + rows->intercept;
    if (pass->n_classes)
        return (struct result){combine, 2, {dimension, pass->n_classes}, with_loss};
    return (struct result){combine, 1, {dimension, 1}, with_loss};
}

struct result result_of_pass(const struct dense_rows *rows, const struct pass *pass) {
    const int64_t dimension = rows->n_columns + rows->intercept;
    const int64_t width = dimension + (pass->target_factor > 0.0);
    switch (pass->kind) {
    case PASS_entry_sum:
        return (struct result){ADD_REALS, 0, {1, 1}, 0};
    case PASS_predictions:
        if (pass->n_classes)
            return (struct result){WRITE_ROWS, 2, {rows->n_rows, pass->n_classes}, 0};
        return number_of_each_row(rows);
    case PASS_clipped_gradient_sum:
        return like_weights(rows, pass, ADD_INTEGERS, 0);
    case PASS_gradient_sum:
        return like_weights(rows, pass, ADD_REALS, 1);
    case PASS_clipped_loss_sums:
        return integers(pass->n_steps);
    case PASS_coordinate_loss_sums:
        return integers(2 * dimension + 1);
    case PASS_image_sum:
        return integers(pass->n_images);
    case PASS_image_gram:
        return integers(pass->n_images * (pass->n_images + 1) / 2);
    case PASS_image_table:
        return (struct result){ADD_INTEGERS, 2, {pass->n_bins, pass->n_images}, 0};
    case PASS_residual_sums:
        return integers(3);
    case PASS_gram_sum:
        return integers(width * (width + 1) / 2);
    case PASS_moment_sums:
        return (struct result){ADD_INTEGERS, 2, {2, dimension}, 0};
    case PASS_norm_counts:
        return integers(pass->n_bins);
    case PASS_magnitude_counts:
        return (struct result){ADD_INTEGERS, 2, {rows->n_columns, pass->n_bins}, 0};
    default: /* row_norms, norms_scaled, norms_through */
        return number_of_each_row(rows);
    }
}

int64_t result_size(const struct result *result) {
    return result->shape[0] * result->shape[1] + result->with_loss;
}
