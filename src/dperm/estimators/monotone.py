"""Monotone curves: released weights, moved to the nearest ones with which no curve turns round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.isotonic import isotonic_regression

from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema
from dperm.estimators.effects import curve_points, curve_rows
from dperm.losses import Loss

Array = NDArray[np.float64]
_ROUNDING = 1e-13  # of products, relative to the lengths


def monotone_columns(schema: Schema | None) -> list[Numeric]:
    """The columns whose curves may not turn round."""
    columns = () if schema is None else schema.columns
    return [each for each in columns if isinstance(each, Numeric) and each.monotone]


def monotone_facts(model: Any, loss: Loss) -> dict[str, Any]:
    """What a statement says of monotone curves; ValueError if a fit of the model cannot have them."""
    if not (columns := monotone_columns(model.schema)):
        return {}
    problem = ""
    if loss.n_classes is not None:
        problem = "a curve of several classes has no direction of its own: fit one class against the others"
    elif model.solver == "noisy_newton":
        problem = "solver='noisy_newton' has standard errors for the weights as they are released"
    elif model.row_norm is not None:
        problem = "rows that are scaled down to row_norm do not keep to it: leave row_norm to the schema"
    if problem:
        raise ValueError(f"column {columns[0].name!r} has monotone={columns[0].monotone}, but {problem}")
    ways = ", ".join(f"{each.name} {'rises' if each.monotone > 0 else 'falls'}" for each in columns)
    return {"monotone": f"{ways} (the released curves were moved to the nearest of this kind)"}


def monotone_weights(schema: Schema | None, weights: Array, fit_intercept: bool) -> Array:
    """The nearest weights, the intercept last, with which the curves of columns are monotone.

    Nearest in the mean square over the bins of what a column adds to the score, each bin counting once; a
    constant moves to the intercept. Computed from what was released, so that no privacy is spent.
    """
    weights, place = weights.copy(), 0
    for column in () if schema is None else schema.columns:
        own = slice(place, place := place + len(column.feature_names))
        if isinstance(column, Numeric) and column.monotone:
            has_own = column.missing == "column"
            curve = weights[own][: -1 if has_own else None]  # a view
            shift = _project(column, curve, fit_intercept)
            if fit_intercept:
                weights[-1] += shift
                weights[own][-1] -= shift if has_own else 0.0  # a missing value adds what it did
    return weights


def _project(column: Numeric, curve: Array, fit_intercept: bool) -> float:
    """Change the weights of a curve in place; returns the constant that it has lost."""
    if column.bins is not None:
        curve[:] = isotonic_regression(curve, increasing=column.monotone > 0)
        return 0.0
    # An atom within a bin has the curve on both sides: it must lie on it.
    free = np.isin(column.atoms, [column.low, column.high, *column.borders])
    own, kept = replace(column, atoms=np.array(column.atoms)[free].tolist()), np.ones(len(curve), bool)
    kept[1 + column.functions :] = free
    rows = curve_rows(own, curve_points(own))[:, : kept.sum()]
    centre = rows.mean(axis=0) if fit_intercept else np.zeros(rows.shape[1])
    steps = column.monotone * np.diff(rows, axis=0)
    steps = steps[steps.any(axis=1)]
    # With z = R w, the squared distance of two curves is that of two z.
    triangle = np.linalg.qr(rows - centre, mode="r")
    z = triangle @ curve[kept]
    change = solve_triangular(triangle, _nearest(z, solve_triangular(triangle, steps.T, trans="T")) - z)
    curve[kept] += change
    on_curve = curve_rows(replace(own, atoms=()), np.array(column.atoms)[~free])[:, 1 : 1 + column.functions]
    curve[~kept] = on_curve @ curve[1 : 1 + column.functions]
    return -float(centre @ change)


def _nearest(z: Array, columns: Array) -> Array:
    """The vector nearest to z whose products with these columns are at least 0.

    It is z plus the columns times the numbers u >= 0 with which it is shortest (Moreau), found with an active
    set (Lawson and Hanson 1974, chapter 23) that stops at rounding errors.
    """
    columns, least = columns / np.linalg.norm(columns, axis=0), -_ROUNDING * float(np.linalg.norm(z))
    found, active = z, np.zeros(0, dtype=np.intp)
    u: Array = np.zeros(0)
    for _ in range(100 * len(columns)):
        products = found @ columns
        if products.min() >= least:
            break
        active, u = np.append(active, products.argmin()), np.append(u, 0.0)
        while True:
            best = np.linalg.lstsq(columns[:, active], -z, rcond=None)[0].astype(np.float64)
            if (falling := best <= 0.0).sum() == 0:
                break
            steps = np.where(falling, u / np.where(falling, u - best, 1.0), np.inf)
            u = u + steps.min() * (best - u)
            u[steps.argmin()] = 0.0
            active, u = active[u > 0.0], u[u > 0.0]
        u, found = best, z + columns[:, active] @ best
    return found
