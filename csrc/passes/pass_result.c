/* Shapes of the results of passes. See run_pass.h. */
#include "passes/run_pass.h"

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
    case PASS_row_norms:
    case PASS_norms_scaled:
    case PASS_norms_through:
        return number_of_each_row(rows);
    case N_PASSES:
        break;
    }
    return (struct result){0};
}

int64_t result_size(const struct result *result) {
    return result->shape[0] * result->shape[1] + result->with_loss;
}
