"""TensorFlow Privacy: a dense layer trained with its vectorised DP-SGD optimizer."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import dp_accounting
import tensorflow as tf
from one_fit import run
from tensorflow_privacy import VectorizedDPKerasSGDOptimizer

BATCH = 512


def noise_multiplier(p, steps):
    def event(multiplier):
        sampled = dp_accounting.PoissonSampledDpEvent(BATCH / p.n, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(sampled, steps)

    return dp_accounting.calibrate_dp_mechanism(dp_accounting.rdp.RdpAccountant, event, p.epsilon, p.delta)


def fit(p, epochs, learning_rate):
    X, kept = p.unit_rows(p.X), p.n // BATCH * BATCH  # batches of one size
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(X.shape[1],))])
    optimizer = VectorizedDPKerasSGDOptimizer(
        l2_norm_clip=1.0,
        noise_multiplier=noise_multiplier(p, epochs * kept // BATCH),
        num_microbatches=BATCH,
        learning_rate=learning_rate,
        momentum=0.9,
    )
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction=tf.losses.Reduction.NONE)
    model.compile(optimizer=optimizer, loss=loss)
    model.fit(X[:kept], p.y[:kept, None], batch_size=BATCH, epochs=epochs, verbose=0)
    return lambda rows: model.predict(p.unit_rows(rows), verbose=0) > 0.0


run(fit)
