"""Sensitivity of gradient descent on a smooth convex loss: how far one record can move the result.

Every function returns an upper bound on ``||w(D) - w(D')||`` for neighbours D, D', rounded up by 1e-12
relative. The objective is ``(1/n) sum_i l(w; z_i) + l2/2 ||w||^2`` with l convex, L-Lipschitz and
beta-smooth in w; the regulariser is the same for both data sets and cancels. `neighbors` is
``replace_one``, or ``add_or_remove`` read as *null record*: n is public and the record is replaced by one
with zero gradient.

The sensitivity is proved for exact steps. A step computed in double precision that is within e of the exact
one moves the final iterate by at most e, because exact steps do not amplify a displacement; on two data sets,
by at most 2 e (`descent_rounding`).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from scipy.optimize import minimize_scalar
from scipy.special import expit

from dperm.accounting._checks import check_non_negative, check_positive, check_steps
from dperm.accounting.neighbours import Neighbours

_UP = 1.0 + 1e-12
# max_u u/(1 + e^u): the Lambert function at 1/e.
_KAPPA = 0.27846454276107379


def contraction(eta: float, l2: float, beta: float) -> float:
    """Lipschitz constant of a gradient step: ``max(|1 - eta l2|, |1 - eta (l2 + beta)|)``.

    Raises
    ------
    ValueError
        If ``eta > 2/(l2 + beta)``, beyond which a step may expand (Hardt, Recht and Singer 2016, Lemma 3.7).
    """
    eta, l2, beta = check_positive(eta, "eta"), check_non_negative(l2, "l2"), check_positive(beta, "beta")
    if eta * (l2 + beta) > 2.0:
        raise ValueError(f"eta must be at most 2/(l2 + beta) = {2.0 / (l2 + beta):.6g}, got {eta!r}.")
    return max(abs(1.0 - eta * l2), abs(1.0 - eta * (l2 + beta))) if l2 > 0.0 else 1.0


@dataclass(frozen=True)
class DescentRun:
    """The public numbers of a run of full-batch gradient descent.

    Parameters
    ----------
    n_samples : int
        Public number of records n, >= 1.
    steps : int
        T, >= 1, fixed in advance.
    eta : float
        Constant step size, in (0, 2/(l2 + beta)] for a beta-smooth loss.
    l2 : float, default=0.0
        Strength of the regulariser on the mean scale.
    neighbors : {"replace_one", "add_or_remove"}
        Relation; s = 2 or 1.
    average : bool, default=False
        Whether the mean of w_1..w_T is published instead of w_T.
    start : float, default=0.0
        Bound on ``||w_0||``.
    radius : float, default=inf
        Radius of the ball that iterates are projected onto.
    """

    n_samples: int
    steps: int
    eta: float
    _: KW_ONLY
    l2: float = 0.0
    neighbors: str = "replace_one"
    average: bool = False
    start: float = 0.0
    radius: float = math.inf

    def __post_init__(self) -> None:
        check_steps(self.n_samples, "n_samples")
        check_steps(self.steps)
        check_positive(self.eta, "eta")
        check_non_negative(self.l2, "l2")
        check_non_negative(self.start, "start")
        check_non_negative(self.radius, "radius")
        Neighbours.parse(self.neighbors)


def gradient_descent_sensitivity(run: DescentRun, lipschitz: float, beta: float) -> float:
    """Sensitivity of full-batch gradient descent.

    Parameters
    ----------
    run : DescentRun
        What is run.
    lipschitz, beta : float
        Constants L and beta of the loss without regulariser, > 0.

    Returns
    -------
    float
        ``(s eta L/n) T`` without regulariser, ``(s eta L/n) (1-rho^T)/(1-rho)`` with; at most 2 radius.

    Notes
    -----
    ``D_(t+1) = rho D_t + eta s L/n`` with `contraction` rho. Attained by linear and by quadratic losses.
    It replaces Lemmas 2 and 3 of Zhang et al. 2017, which are 1.5 and 2.5 to 5 times larger.
    """
    rho = contraction(run.eta, run.l2, beta)
    displacement = _displacement(
        run.eta * check_positive(lipschitz, "lipschitz"), run.n_samples, run.neighbors
    )
    if not run.average:
        return min(displacement * _geometric(rho, run.steps) * _UP, 2.0 * run.radius)
    if rho == 1.0:
        total = displacement * (run.steps + 1) / 2.0
    else:
        # (1/T) sum_t (1 - rho^t)/(1 - rho)
        total = displacement / (1.0 - rho) * (1.0 - rho * _geometric(rho, run.steps) / run.steps)
    return min(total * _UP, 2.0 * run.radius)


def logistic_gradient_diameter(weight_norm: float, row_norm: float = 1.0) -> float:
    """Largest distance of the logistic gradients of two records at one w with ``||w|| <= weight_norm``.

    Parameters
    ----------
    weight_norm : float
        W, at least 0.
    row_norm : float, default=1.0
        R, bound on ``||x||``, > 0.

    Returns
    -------
    float
        ``max over 0 <= a <= R of 2 S(W a) sqrt(R^2 - a^2)``, S the logistic function; from R to 2 R.

    Notes
    -----
    All gradients lie in a ball of half this diameter around a point on the axis of w; attained in two
    dimensions.
    """
    scaled = check_non_negative(weight_norm, "weight_norm") * check_positive(row_norm, "row_norm")

    def half(angle: float) -> float:
        return -float(expit(scaled * math.sin(angle))) * math.cos(angle)

    best = minimize_scalar(half, bounds=(0.0, 0.5), method="bounded", options={"xatol": 1e-12})
    return -2.0 * row_norm * float(best.fun) * _UP


def logistic_iterate_norms(run: DescentRun, row_norm: float = 1.0) -> list[float]:
    """Bounds W_0..W_T on the iterates of gradient descent on the logistic loss, before any data are seen.

    Parameters
    ----------
    run : DescentRun
        What is run, with ``eta l2 <= 1``.
    row_norm : float, default=1.0
        R, bound on ``||x||``, > 0.

    Returns
    -------
    list of float
        ``W_(t+1)^2 = (1 - eta l2)^2 W_t^2 + 2 eta (1 - eta l2) max_u u S(-u) + eta^2 (R S(R W_t))^2``.
    """
    shrink = 1.0 - run.eta * run.l2
    if shrink < 0.0:
        raise ValueError(f"eta * l2 must be at most 1, got {run.eta * run.l2:.6g}.")
    norms = [run.start]
    for _ in range(run.steps):
        w = norms[-1]
        gradient = row_norm * float(expit(row_norm * w))
        square = (shrink * w) ** 2 + 2.0 * run.eta * shrink * _KAPPA + (run.eta * gradient) ** 2
        norms.append(min(math.sqrt(square) * (1.0 + 1e-15), run.radius))
    return norms


def logistic_sensitivity(run: DescentRun, row_norm: float = 1.0) -> float:
    """Sensitivity of gradient descent on the logistic loss: tighter than the Lipschitz bound.

    Parameters
    ----------
    run, row_norm
        As in `logistic_iterate_norms`; ``beta = R^2/4``.

    Returns
    -------
    float
        ``D_(t+1) = rho D_t + (eta/n) g(W_t)``, g the `logistic_gradient_diameter` (replace_one) or
        ``R S(R W)`` (add_or_remove).
    """
    rho = contraction(run.eta, run.l2, row_norm * row_norm / 4.0)
    replace = Neighbours.parse(run.neighbors) is Neighbours.REPLACE_ONE
    distance = total = 0.0
    for w in logistic_iterate_norms(run, row_norm)[:-1]:
        gap = logistic_gradient_diameter(w, row_norm) if replace else row_norm * float(expit(row_norm * w))
        distance = rho * distance + run.eta / run.n_samples * gap
        total += distance
    return min((total / run.steps if run.average else distance) * _UP, 2.0 * run.radius)


def permutation_sgd_sensitivity(
    n_samples: int,
    batch_size: int,
    passes: int,
    eta: float,
    lipschitz: float,
    beta: float,
    *,
    l2: float = 0.0,
    neighbors: str = "replace_one",
) -> float:
    """Sensitivity of mini-batch SGD over permutations with a constant step size; batch_size divides n.

    Notes
    -----
    ``(s eta L/b) k`` without regulariser, ``(s eta L/b) (1-rho^(kM))/(1-rho^M)`` with, M = n/b steps per
    pass: the worst position is the last of a pass (Wu et al. 2017; tightened). Every step divides by b.
    """
    per_pass = _steps_per_pass(n_samples, batch_size)
    displacement = _displacement(eta * check_positive(lipschitz, "lipschitz"), batch_size, neighbors)
    factor = contraction(eta, l2, beta) ** per_pass
    return displacement * _geometric(factor, check_steps(passes, "passes")) * _UP


def permutation_sgd_decreasing_sensitivity(
    n_samples: int, batch_size: int, lipschitz: float, l2: float, *, neighbors: str = "replace_one"
) -> float:
    """Sensitivity with steps ``min(1/beta_total, 1/(l2 t))``: ``s L/(l2 n)``, for every batch size.

    Notes
    -----
    Wu et al. 2017, Lemma 8, without the further division by the batch size, which is false: the value
    is attained for every batch size.
    """
    _steps_per_pass(n_samples, batch_size)
    return (
        _displacement(check_positive(lipschitz, "lipschitz"), n_samples, neighbors)
        / check_positive(l2, "l2")
        * _UP
    )


def _displacement(lipschitz: float, n_samples: int, neighbors: str) -> float:
    """Largest change of a mean gradient, times whatever factor is included in `lipschitz`."""
    return Neighbours.parse(neighbors).sum_factor * lipschitz / check_steps(n_samples, "n_samples")


def _geometric(rho: float, terms: int) -> float:
    """``1 + rho + ... + rho^(terms-1)``."""
    if rho == 1.0:
        return float(terms)
    if rho == 0.0:
        return 1.0
    return -math.expm1(terms * math.log(rho)) / (1.0 - rho)


def _steps_per_pass(n_samples: int, batch_size: int) -> int:
    n_samples, batch_size = check_steps(n_samples, "n_samples"), check_steps(batch_size, "batch_size")
    if n_samples % batch_size:
        raise ValueError(
            f"batch_size must divide n_samples={n_samples}, got {batch_size}: a last batch averaged over its "
            "own size breaks the bound. Drop the remainder or choose another batch size."
        )
    return n_samples // batch_size


_UNIT = 2.0**-52


class DescentRounding(NamedTuple):
    """Bounds on the effect of rounding in one run.

    Attributes
    ----------
    additive : float
        Added to the sensitivity of the last iterate and of the average.
    drift : float
        Added to kappa^2, the growth of the squared distance in a step on shared records; 0 where gradients
        are Lipschitz continuous.
    """

    additive: float
    drift: float


def descent_rounding(
    steps: int,
    step_size: float,
    *,
    batch_size: int,
    dimension: int,
    gradient_bound: float,
    smoothness: float,
    l2: float,
    reach: float,
) -> DescentRounding:
    """Bound the effect of rounding on a run.

    Parameters
    ----------
    steps : int
        T.
    step_size : float
        Largest step size eta.
    batch_size, dimension : int
        b and d.
    gradient_bound, smoothness : float
        G and beta of the loss; beta may be infinite.
    l2 : float
        Strength of the ridge term, with ``step_size * l2 <= 1``.
    reach : float
        W, bound on the norm of the iterates: that of the start plus ``eta G T``, or the radius of the ball
        that they are projected onto.

    Notes
    -----
    The rounding error of a step is at most ``2^-52 (eta ((b + d + 16) (G + l2 W) + (d + 4) beta W) + (d + 16)
    W)``: the sum over the batch, the error of the dot product times the Lipschitz constant of the gradient,
    and the update with its projection. If the gradient is not Lipschitz, the derivative is exact at a
    prediction that is off by ``2^-52 (d + 4) B W``, where B is the largest norm of a row; as derivatives are
    monotone, that adds at most ``8 eta G (d + 4) W 2^-52`` to the squared distance.
    """
    own = step_size * (batch_size + dimension + 16) * (gradient_bound + l2 * reach)
    per_step = _UNIT * (own + (dimension + 16) * reach)
    moved = _UNIT * step_size * (dimension + 4) * reach
    drift = 0.0
    if smoothness < math.inf:
        per_step += moved * smoothness
    else:
        drift = 8.0 * moved * gradient_bound
    average = _UNIT * (steps + 2) * reach  # plain summation
    return DescentRounding(2.0 * steps * per_step + 2.0 * average, drift)
