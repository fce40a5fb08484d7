"""JAX-Privacy: clipped gradients on Poisson samples, Gaussian noise, optax."""

import jax
import numpy as np
import optax
from jax import numpy as jnp
from jax_privacy import batch_selection, clipping, noise_addition
from jax_privacy.accounting import accountants, analysis, calibrate
from one_fit import run

BATCH = 512


def loss(weights, rows, labels):
    return optax.sigmoid_binary_cross_entropy(rows @ weights["w"] + weights["b"], labels).mean()


def fit(p, epochs, learning_rate):
    X, steps = p.unit_rows(p.X), epochs * p.n // BATCH
    multiplier = calibrate.calibrate_noise_multiplier(
        target_epsilon=p.epsilon,
        target_delta=p.delta,
        accountant=analysis.DpsgdTrainingAccountant(accountants.PldAccountantConfig()),
        batch_sizes=BATCH,
        num_updates=steps,
        num_samples=p.n,
    )
    gradient = clipping.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2), normalize_by=BATCH)
    noise = noise_addition.gaussian_privatizer(stddev=multiplier / BATCH)
    weights = {"w": jnp.zeros(X.shape[1]), "b": jnp.zeros(())}
    optimizer = optax.chain(noise, optax.sgd(learning_rate, momentum=0.9))
    state = optimizer.init(weights)

    @jax.jit
    def step(weights, state, rows, labels, padding):
        change, state = optimizer.update(gradient(weights, rows, labels, is_padding_example=padding), state)
        return optax.apply_updates(weights, change), state

    batches = batch_selection.CyclicPoissonSampling(sampling_prob=BATCH / p.n, iterations=steps)
    for batch in batches.batch_iterator(p.n):
        padded = batch_selection.pad_to_multiple_of(batch, 128)
        weights, state = step(weights, state, X[padded], p.y[padded].astype(np.float32), padded < 0)
    w, b = np.asarray(weights["w"]), float(weights["b"])
    return lambda rows: p.unit_rows(rows) @ w + b > 0.0


run(fit)
