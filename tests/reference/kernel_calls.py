"""Passes of the compiled kernels under short names, with losses named as their numpy twins."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from dperm import losses
from dperm._kernels import row_kernels
from reference import awkward_arrays
from reference.losses import EVERY_SHAPE, EXAMPLES, LOSSES

STEPS = np.array([0.0, 0.5, -1.0, 2.0, 1e-3, 7.0])  # not a multiple of the batch of four
EVEN_STEPS = np.linspace(0.0, 2.0, 21)
CLIP, ROW_NORM = 0.5, 1.5
GRIDS = {np.dtype(np.float32): CLIP * 2.0**-22, np.dtype(np.float64): CLIP * 2.0**-32}

dtypes = pytest.mark.parametrize("dtype", awkward_arrays.DTYPES, ids=lambda dtype: dtype.__name__)
intercepts = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
each_loss = pytest.mark.parametrize("loss", LOSSES)


def each_loss_and(shapes, few):
    """Cases (loss, shape): all shapes for the losses of `EVERY_SHAPE`, ``few`` for others."""
    return [
        pytest.param(loss, shape, id=f"{loss}-{shape}")
        for loss in LOSSES
        for shape in (shapes if loss in EVERY_SHAPE else few)
    ]


def unit_roundoff(dtype):
    return np.finfo(dtype).eps / 2


def bind(x, y, intercept=False, row_norm=1.0, threads=1, counts=None):
    return row_kernels.DenseRows(x, y, intercept, row_norm, threads, counts)


def weights(w, rows_or_x, intercept):
    """The weights for a matrix of that width: leading entries of ``w`` and, for the intercept, the last."""
    width = rows_or_x.shape[1]
    return np.ascontiguousarray(np.append(w[:width], w[-1]) if intercept else w[:width])


def run(rows, kernel, threads=1, *, loss=None, **arguments):
    """Result of a pass of ``csrc/kernel_table.h``. loss: a key of `EXAMPLES`, or ``Loss.kernel``."""
    if loss is None and isinstance(rows, row_kernels.SoftmaxRows) and kernel != "predictions":
        loss = losses.Softmax(2).kernel  # the same for any number of classes
    if loss is not None:
        arguments["loss_spec"] = EXAMPLES[loss].kernel if isinstance(loss, str) else loss
    return getattr(rows, kernel)(n_threads=threads, **arguments)


def gradient_integers(rows, loss, w, clip, grid, threads=1, **more):
    """more: batch, clip_norms and keep_predictions."""
    return run(rows, "clipped_gradient_sum", threads, loss=loss, w=w, inner_clip=clip, grid=grid, **more)


def plain_sums(rows, loss, w, threads=1, precise=False, clip=np.inf):
    """The sums ``(gradient, loss)`` in floating point."""
    settings = {"w": w, "inner_clip": clip, "with_loss": True, "precise": precise}
    return run(rows, "gradient_sum", threads, loss=loss, **settings)


def loss_integers(rows, loss, w, direction, clip, grid, threads=1, steps=STEPS):
    line = {"w": w, "direction": direction, "steps": steps}
    return run(rows, "clipped_loss_sums", threads, loss=loss, clip=clip, grid=grid, **line)


def coordinate_integers(rows, loss, w, stride, clip, grid, threads=1, intercept_stride=None):
    strides = {"stride": stride, "intercept_stride": intercept_stride or stride}
    return run(rows, "coordinate_loss_sums", threads, loss=loss, w=w, clip=clip, grid=grid, **strides)


def predictions(rows, w, threads=1):
    return run(rows, "predictions", threads, w=w)


def descend(rows, loss, start, order, ends, step_sizes, noise=None, *, w_sum=None, **settings):
    """Weights and sum of iterates after steps of gradient descent, by default without clipping."""
    w, total = start.copy(), np.zeros_like(start) if w_sum is None else w_sum.copy()
    defaults = {"inner_clip": math.inf, "grid": 0.0, "divisor": 1.0, "l2": 0.0, "radius": math.inf}
    chosen = {**defaults, "n_penalized": len(w), **settings}
    rows.descend(
        SimpleNamespace(
            loss_spec=EXAMPLES[loss].kernel, settings=SimpleNamespace(**chosen), w=w, w_sum=total,
            order=order, batch_ends=ends, step_sizes=step_sizes, noise=noise,
        )
    )  # fmt: skip
    return w, total


def all_integers(x, y, w, direction, *, loss, intercept, threads=1, row_norm=1.5, clip=0.5):
    """Every exact sum of a data set, one after the other, on a grid that suits both dtypes."""
    rows = bind(x, y, intercept, row_norm, threads)
    w, direction = weights(w, x, intercept), weights(direction, x, intercept)
    gradient = gradient_integers(rows, loss, w, clip, clip * 2.0**-22, threads)
    line = loss_integers(rows, loss, w, direction, clip, clip * 2.0**-30, threads)
    axes = coordinate_integers(rows, loss, w, 0.3, clip, clip * 2.0**-30, threads)
    return np.concatenate([gradient, line, axes])


def per_record(x, y, *arguments, integers=all_integers, **keywords):
    """Integers of every one-row data set, as Python integers, whose sum cannot overflow."""
    each = [integers(x[i : i + 1], y[i : i + 1], *arguments, **keywords) for i in range(len(x))]
    return np.array(each).astype(object)


def assert_sum_of_records(*problem, integers=all_integers, **keywords):
    """The sums of a data set are the sums over its records."""
    each = per_record(*problem, integers=integers, **keywords)
    assert integers(*problem, **keywords).tolist() == each.sum(axis=0).tolist()


def assert_chunks_add_up(data, x, y, *weights, integers=all_integers, **keywords):
    """Some records in random order, in two chunks, have the sums of those records one by one."""
    each = per_record(x, y, *weights, integers=integers, **keywords)
    order = data.draw(st.permutations(range(len(x))))
    kept = np.array(order[: data.draw(st.integers(1, len(x)))])
    cut = data.draw(st.integers(0, len(kept)))
    chunks = [chunk for chunk in (kept[:cut], kept[cut:]) if len(chunk)]
    total = sum(integers(x[chunk], y[chunk], *weights, **keywords) for chunk in chunks)
    assert total.tolist() == each[kept].sum(axis=0).tolist()


def on_each_instruction_set(compute):
    """Results of `compute` on each instruction set; the test needs the fixture keep_instruction_set."""
    results = []
    for name in row_kernels.instruction_sets():
        row_kernels.use_instruction_set(name)
        results.append(compute())
    return results


def assert_same_on_each_instruction_set(compute):
    """`compute` returns the same arrays, bit for bit, on each instruction set."""
    first, *others = on_each_instruction_set(compute)
    for other in others:
        for here, there in zip(first, other, strict=True):
            np.testing.assert_array_equal(there, here)


# -- representations of the same records --------------------------------------------------------------


def exact_passes(rows, loss, w, direction, threads=1, batch=None):
    """Results with the same bits in every representation, by name: sums, predictions and descents."""
    grid, norms = GRIDS[rows.y.dtype], rows.norms
    longer = np.where(np.isfinite(norms), np.minimum(norms, 1e300) * 1.25 + 0.1, np.nan)
    options = {"": {}, ", longer rows": {"clip_norms": longer}}
    if rows.y.dtype == np.float64:  # lengths below the norms exceed the clip, in floats by too much
        lengths = np.exp(np.random.default_rng(len(norms)).normal(size=len(norms)))
        options[", any lengths"] = {"clip_norms": lengths}
    if batch is not None:
        options |= {f"{name}, batch": {**option, "batch": batch} for name, option in options.items()}

    def gradient(**option):
        return gradient_integers(rows, loss, w, CLIP, grid, threads, **option)

    def line(steps):
        return loss_integers(rows, loss, w, direction, CLIP, grid, threads, steps)

    result = {"norms": norms, "predictions": predictions(rows, w, threads)}
    result |= {f"gradient{name}": gradient(**option) for name, option in options.items()}
    result |= {"even line": line(EVEN_STEPS), "line": line(STEPS)}
    result |= {"kept": gradient(keep_predictions=True), "even line from kept": line(EVEN_STEPS)}
    result |= {"line from kept": line(STEPS)}
    order = np.array([3, 0, 10**9, -1, 1, 1, 2], dtype=np.int64)
    noise = np.arange(5 * len(w)).reshape(5, -1) % 7
    settings = {"inner_clip": CLIP, "divisor": 3.0, "l2": 0.125, "n_penalized": len(w) - 1, "radius": 5.0}
    for ends, own in (
        ([2, 5, 6, 6, 7], {"grid": grid, "noise": noise}),
        ([1, 2, 3, 4, 7], {"noise": noise / 64}),
    ):
        steps = descend(rows, loss, w, order, np.array(ends), np.full(5, 0.3), **own, **settings)
        result[f"descent, {own['noise'].dtype} noise"] = np.concatenate(steps)
    return result


def assert_same_passes(one, other, *arguments, passes=exact_passes, **keywords):
    """Equal bit for bit, except that all NaNs are equal."""
    expected = passes(other, *arguments, **keywords)
    for name, result in passes(one, *arguments, **keywords).items():
        np.testing.assert_array_equal(result, expected[name], err_msg=name, strict=True)
