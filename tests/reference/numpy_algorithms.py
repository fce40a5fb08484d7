"""Plain numpy twins of the algorithms: the same steps with floating-point sums and numpy's noise."""

import math

import numpy as np
from scipy.special import expit


def scaled_rows(X, row_norm, fit_intercept):
    """The design matrix as the objective sees it: intercept appended, long rows scaled."""
    rows = np.column_stack([X, np.ones(len(X))]) if fit_intercept else np.asarray(X, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1)
    return rows * np.minimum(1.0, row_norm / norms)[:, None]


def logistic_slopes(rows, y, w):
    return -y * expit(-y * (rows @ w))


def clipped_logistic_gradient(rows, y, norms, w, clip):
    """The fastest numpy version: two matrix-vector products, no per-record gradients."""
    s = logistic_slopes(rows, y, w)
    s *= np.minimum(1.0, clip / np.maximum(np.abs(s) * norms, 1e-300))
    return s @ rows


def clipped_logistic_gradient_materialised(rows, y, w, clip):
    """The usual per-example version: an array of all gradients, its norms, the clipped sum."""
    gradients = logistic_slopes(rows, y, w)[:, None] * rows
    norms = np.linalg.norm(gradients, axis=1)
    return (gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]).sum(axis=0)


def clipped_softmax_gradient(rows, y, norms, w, clip):
    """The softmax version for class codes: two matrix products, shape (d, K)."""
    r = rows @ w
    r -= r.max(axis=1, keepdims=True)
    np.exp(r, out=r)
    r /= r.sum(axis=1, keepdims=True)
    r[np.arange(len(y)), y] -= 1
    lengths = np.sqrt(np.einsum("ik,ik->i", r, r)) * norms
    r *= np.minimum(1.0, clip / np.maximum(lengths, 1e-30))[:, None]
    return rows.T @ r


def clipped_logistic_losses(rows, y, w, direction, steps, clip):
    """Clipped loss sums along a line from two matrix-vector products."""
    p, q = y * (rows @ w), y * (rows @ direction)
    return np.array([np.minimum(np.logaddexp(0.0, step * q - p), clip).sum() for step in steps])


def noisy_gd(rows, y, noise_multiplier, schedule, rng):
    """Twin of dperm.algorithms.noisy_gd (add_or_remove, no ridge term, no projection)."""
    n, d = rows.shape
    norms = np.linalg.norm(rows, axis=1)
    w, velocity = np.zeros(d), np.zeros(d)
    averaged = math.ceil(schedule.tail * (schedule.steps + 1))
    total = np.zeros(d)
    for t in range(1, schedule.steps + 1):
        noise = rng.normal(scale=noise_multiplier * schedule.clip, size=d)
        gradient = (clipped_logistic_gradient(rows, y, norms, w, schedule.clip) + noise) / n
        velocity = schedule.momentum * velocity - schedule.step_size * gradient
        w = w + velocity
        if t > schedule.steps - averaged:
            total += w
    return total / averaged


def output_perturbation_gd(rows, y, steps, step_size, sigma, rng):
    """Twin of dperm.algorithms.output_perturbation_gd (logistic loss, no ridge term, no projection)."""
    w = np.zeros(rows.shape[1])
    for _ in range(steps):
        w = w - step_size * (logistic_slopes(rows, y, w) @ rows) / len(rows)
    return w + rng.normal(scale=sigma, size=len(w))


def privgene(rows, y, rate, schedule, rng):
    """Twin of dperm.algorithms.privgene (logistic loss, intercept, no ridge); infinite rate: best child."""
    d = rows.shape[1]
    w, stride = np.zeros(d), schedule.stride
    axes = np.ones(d)
    for _ in range(schedule.generations):
        children = np.vstack([w + stride * np.diag(axes), w - stride * np.diag(axes), w])
        losses = np.logaddexp(0.0, -y[:, None] * (rows @ children.T))
        bound = stride * schedule.entry_bound
        scores = np.clip(losses - losses[:, -1:], -bound, bound).sum(axis=0)
        noise = rng.gumbel(size=len(scores)) if rate < math.inf else 0.0
        w = children[np.argmax(noise - (rate / stride if rate < math.inf else 1.0) * scores)]
        stride *= schedule.decay
    return w


def whitened_gd(rows, y, whitening, clip, schedule):
    """Twin of dperm.algorithms.whitened_gd without noise, given the whitening matrix."""
    dual, velocity, iterates = np.zeros(rows.shape[1]), 0.0, []
    for _ in range(schedule.steps):
        w = whitening @ dual
        each = logistic_slopes(rows, y, w)[:, None] * (rows @ whitening)
        norms = np.linalg.norm(each, axis=1)
        gradient = (each * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]).mean(axis=0)
        velocity = schedule.momentum * velocity - schedule.step_size * gradient
        dual = dual + velocity
        iterates.append(whitening @ dual)
    return np.mean(iterates[-math.ceil(schedule.tail * schedule.steps) :], axis=0)


def least_squares_by_statistics(rows, y, noise_of_rows, noise_of_products, ridge):
    """Ridge regression on sums plus the given noise."""
    return np.linalg.solve(
        rows.T @ rows + noise_of_rows + ridge * np.eye(rows.shape[1]), rows.T @ y + noise_of_products
    )


def dp_agd(rows, y, budget, gradient_cost, selection_cost, schedule, rng, n_candidates=20):
    """Twin of dperm.algorithms.dp_agd (zCDP, add_or_remove, no ridge term); returns (w, updates)."""
    d = rows.shape[1]
    norms = np.linalg.norm(rows, axis=1)
    w, velocity, step_max = np.zeros(d), np.zeros(d), schedule.step_max
    iterates, chosen, spent = [], [], 0.0
    rate = math.sqrt(8.0 * selection_cost) / schedule.loss_clip

    def result():
        if not (schedule.average and iterates):
            return w, len(chosen)
        late = 2 ** ((len(iterates) - 1).bit_length() - 2) if len(iterates) > 2 else 0
        return np.mean(iterates[late:], axis=0), len(chosen)

    def measure(total, cost):
        return total + rng.normal(scale=schedule.clip / math.sqrt(2.0 * cost), size=d)

    while spent + gradient_cost + selection_cost <= budget:
        spent += gradient_cost
        total = clipped_logistic_gradient(rows, y, norms, w, schedule.clip)
        measured, cost = measure(total, gradient_cost), gradient_cost
        while True:
            towards = schedule.momentum * velocity + measured / len(rows)
            direction = towards / np.linalg.norm(towards)
            if spent + selection_cost > budget:
                return result()
            spent += selection_cost
            steps = step_max * np.arange(n_candidates + 1) / n_candidates
            scores = clipped_logistic_losses(rows, y, w, direction, steps, schedule.loss_clip)
            j = int(np.argmax(rng.gumbel(size=len(steps)) - rate * scores))
            if j > 0:
                break
            velocity, step_max = np.zeros(d), schedule.shrink * step_max
            extra = schedule.growth * cost
            if spent + extra + selection_cost > budget:
                return result()
            spent += extra
            measured = (cost * measured + extra * measure(total, extra)) / (cost + extra)
            cost += extra
        w = w - steps[j] * direction
        velocity = towards
        iterates.append(w)
        chosen.append(steps[j])
        gradient_cost = cost
        if len(chosen) % 10 == 0:
            step_max = 1.1 * max(chosen[-10:])
    return result()
