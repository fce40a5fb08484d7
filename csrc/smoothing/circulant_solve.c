/* See circulant_solve.h. */
#include <math.h>
#include <stdlib.h>

#include "smoothing/circulant_solve.h"

enum { CHUNK = 1024 };

/* Powers of a below 2^-60 are negligible. */
#define LOG_NEGLIGIBLE (-41.6)

/* Of each chunk: first the sums over the chunk alone, then the carries into it. */
struct ends {
    double forward, backward;
};

struct ring {
    int64_t d, n_chunks;
    double log_a;
};

static int64_t chunk_length(const struct ring *ring, int64_t chunk) {
    const int64_t left = ring->d - chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

static double power(const struct ring *ring, int64_t exponent) {
    return exponent == 0 ? 1.0 : exp((double)exponent * ring->log_a);
}

static void open_smoother(struct smoother *smoother, struct ring *ring, double sigma) {
    const double root = sqrt(4.0 * sigma + 1.0);
    ring->log_a = log1p(-(1.0 + root) / (2.0 * sigma + 1.0 + root)); /* -infinity for sigma = 0 */
    smoother->a = 2.0 * sigma / (2.0 * sigma + 1.0 + root);
    smoother->scale = 1.0 / root;
    for (int k = 0; k <= SMOOTHER_UNIT; k++)
        smoother->power[k] = power(ring, k);
    for (int j = 0; j < SMOOTHER_UNIT; j++)
        for (int i = 0; i < SMOOTHER_UNIT; i++) {
            smoother->forward[j][i] = i >= j ? smoother->power[i - j] : 0.0;
            smoother->backward[j][i] = i < j ? smoother->power[j - i] : 0.0;
        }
    const double reach = LOG_NEGLIGIBLE / ring->log_a;
    smoother->reach = reach < CHUNK ? (int64_t)reach + 1 : CHUNK;
}

/* From sums over chunks to carries into them, around the ring. */
static void carry_over(const struct ring *ring, struct ends *ends) {
    const double around = -1.0 / expm1((double)ring->d * ring->log_a);
    const double whole = power(ring, CHUNK);
    const double last = power(ring, chunk_length(ring, ring->n_chunks - 1));
    double forward = 0.0, backward = 0.0;
    for (int64_t c = 0; c < ring->n_chunks; c++)
        forward = ends[c].forward + (c == ring->n_chunks - 1 ? last : whole) * forward;
    for (int64_t c = ring->n_chunks - 1; c >= 0; c--)
        backward = ends[c].backward + (c == ring->n_chunks - 1 ? last : whole) * backward;
    forward *= around; /* F_(d-1), which enters the first chunk */
    backward *= around;
    for (int64_t c = 0; c < ring->n_chunks; c++) {
        const double sum = ends[c].forward;
        ends[c].forward = forward;
        forward = sum + whole * forward;
    }
    for (int64_t c = ring->n_chunks - 1; c >= 0; c--) {
        const double sum = ends[c].backward;
        ends[c].backward = backward;
        backward = sum + (c == ring->n_chunks - 1 ? last : whole) * backward;
    }
}

int circulant_solve(const struct kernel_table *kernels, int n_threads, double sigma,
                    const double *v, int64_t n_vectors, int64_t d, double *u) {
    struct ring ring = {.d = d, .n_chunks = (d + CHUNK - 1) / CHUNK};
    struct smoother smoother;
    open_smoother(&smoother, &ring, sigma);
    const int64_t n_tasks = n_vectors * ring.n_chunks;
    struct ends *ends = malloc((n_tasks + 1) * sizeof *ends);
    if (!ends)
        return -1;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < n_tasks; task++) {
            const int64_t chunk = task % ring.n_chunks;
            const double *first = v + task / ring.n_chunks * d + chunk * CHUNK;
            kernels->smoothing->chunk_ends(&smoother, first, chunk_length(&ring, chunk),
                                           &ends[task].forward, &ends[task].backward);
        }
#pragma omp for schedule(static)
        for (int64_t vector = 0; vector < n_vectors; vector++)
            carry_over(&ring, ends + vector * ring.n_chunks);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < n_tasks; task++) {
            const int64_t chunk = task % ring.n_chunks;
            const int64_t first = task / ring.n_chunks * d + chunk * CHUNK;
            kernels->smoothing->smooth_chunk(&smoother, v + first, chunk_length(&ring, chunk),
                                             ends[task].forward, ends[task].backward, u + first);
        }
    }
    free(ends);
    return 0;
}
