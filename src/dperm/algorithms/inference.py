"""Estimates with standard errors: intervals, linear contrasts, and a summary table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from dperm.algorithms.defaults.constants import Newton
from dperm.algorithms.fit import FitResult
from dperm.algorithms.settings import within

Array = NDArray[np.float64]


def confidence(level: float, alpha: float | None = None) -> float:
    """The level of an interval; ValueError for levels below 0.5, which are usually meant as `alpha`."""
    if alpha is not None:
        return 1.0 - within("above 0 and at most 0.5", lambda x: 0.0 < x <= 0.5)("alpha", alpha)
    expected = "at least 0.5 and below 1 (for 1 - level pass alpha=)"
    return within(expected, lambda x: 0.5 <= x < 1.0)("level", level)


@dataclass(frozen=True)
class Estimates:
    """Released estimates with standard errors; anything computed from them stays private.

    Attributes
    ----------
    value : ndarray
    standard_error : ndarray
        Of sampling and noise together. If noise leaves it uncertain by half, the largest possible value; NaN
        if it is refused as too uncertain.
    noise_share : ndarray
        The part of an interval's width that is due to noise; NaN if the interval is refused.

    Examples
    --------
    >>> import numpy as np
    >>> estimates = Estimates(np.array([1.0]), standard_error=np.array([0.5]), noise_share=np.array([0.1]))
    >>> estimates.conf_int().round(2)
    array([[0.02, 1.98]])
    """

    value: Array
    standard_error: Array
    noise_share: Array

    @classmethod
    def cautiously(cls, value: Array, variance: Array, cautious: Array, sampling: Array) -> Estimates:
        """Estimates whose uncertain standard errors are enlarged or refused.

        `cautious` are the variances if all curvature were as small as its noise allows, `sampling` is the
        part of the variance that is not noise.
        """
        known = cautious < Newton.MOST_UNCERTAIN**2 * variance
        reported = np.where(cautious < Newton.UNCERTAIN**2 * variance, variance, cautious)
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = 1.0 - np.sqrt(np.minimum(sampling / reported, 1.0))
        return cls(value, np.where(known, np.sqrt(reported), math.nan), np.where(known, noise, math.nan))

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Normal confidence intervals, shape ``(len(value), 2)``; NaN where refused."""
        width = norm.isf(0.5 - 0.5 * confidence(level, alpha)) * self.standard_error
        return np.column_stack([self.value - width, self.value + width])

    def rows(self, names: Sequence[str], level: float) -> list[str]:
        """A line of a table for each estimate."""
        return [
            self._row(name, k, *interval)
            for k, (name, interval) in enumerate(zip(names, self.conf_int(level), strict=True))
        ]

    def _row(self, name: str, k: int, low: float, high: float) -> str:
        value, error = self.value[k], self.standard_error[k]
        if math.isnan(error):
            return f"{name} {value:>10.4g} {'left out' if value == 0.0 else 'not determined':>20}"
        z = value / error
        return (
            f"{name} {value:>10.4g} {error:>10.3g} {z:>9.3f} {2.0 * norm.sf(abs(z)):>8.3f} {low:>10.4g} "
            f"{high:>10.4g} {self.noise_share[k]:>6.0%}"
        )


@dataclass(frozen=True)
class InferenceResult(FitResult):
    """Released weights with their covariance.

    Attributes
    ----------
    coef : ndarray
        Weights; the intercept is last when the objective has one.
    covariance : (D, D) ndarray
        Covariance of the weights, from sampling and noise.
    sampling_covariance : (D, D) ndarray
        The part of it that is not noise.
    cautious_covariance : (D, D) ndarray
        The covariance if the Hessian were as small as its noise allows. An interval that would be 1.5 times
        as wide is reported as that wide; one that would be twice as wide is refused.
    effects : Estimates or None
        Average marginal effects ``mean(d P(y = 1) / d x_j)`` of the columns, if they were requested.
    down_weighted : float
        Released share of the records with a weight below 1.
    privacy : PrivacyStatement
        The guarantee.
    n_iter : int
        Gradients.
    history : list of dict
        Released values only.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-0.5, 0.5], (5000, 2))
    >>> y = np.where(rng.logistic(size=5000) < X @ [4.0, -4.0], 1, -1)
    >>> objective = dperm.Objective("logistic", X, y, row_norm=1.3, fit_intercept=True)
    >>> result = dperm.algorithms.noisy_newton(objective, epsilon=1.0, delta=1e-6, random_state=0)
    >>> result.coef.shape, result.covariance.shape, result.conf_int().shape
    ((3,), (3, 3), (3, 2))
    """

    covariance: Array = field(kw_only=True)
    sampling_covariance: Array = field(kw_only=True)
    cautious_covariance: Array = field(kw_only=True)
    effects: Estimates | None = field(kw_only=True, default=None)
    down_weighted: float = field(kw_only=True, default=0.0)

    @property
    def coefficients(self) -> Estimates:
        """The weights as estimates."""
        return self.contrasts(np.eye(len(self.coef)))

    def contrasts(self, matrix: ArrayLike) -> Estimates:
        """Estimates of linear combinations of the weights, one for each row of a ``(k, D)`` matrix.

        Differences between categories can be determined even if their levels are not, as with a column for
        every category and an intercept.
        """
        rows = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != len(self.coef) or not np.isfinite(rows).all():
            raise ValueError(
                f"a contrast must have {len(self.coef)} finite entries, got shape {np.shape(matrix)}"
            )
        variances = [
            np.maximum(np.einsum("ij,jk,ik->i", rows, each, rows), 0.0)
            for each in (self.covariance, self.cautious_covariance, self.sampling_covariance)
        ]
        return Estimates.cautiously(rows @ self.coef, *variances)

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Confidence intervals of the weights, shape ``(D, 2)``, intercept last; NaN where refused.

        `alpha` stands for ``level = 1 - alpha``.
        """
        return self.coefficients.conf_int(level, alpha=alpha)

    def not_determined(self, names: Sequence[str] | None = None) -> list[str]:
        """The names of the weights without an interval that were not left out."""
        names = self._names() if names is None else list(names)
        refused = np.isnan(self.coefficients.standard_error) & (self.coef != 0.0)
        return [name for name, each in zip(names, refused, strict=True) if each]

    def summary(
        self,
        names: Sequence[str] | None = None,
        *,
        contrasts: Mapping[str, Array] | None = None,
        level: float = 0.95,
    ) -> str:
        """A table of the weights as text.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the weights; by default x1, x2, ... and the intercept.
        contrasts : mapping of str to (D,) array_like, optional
            Further rows, for linear combinations of the weights.
        level : float
            Confidence level of the intervals.
        """
        names = self._names() if names is None else list(names)
        if len(names) != len(self.coef):
            raise ValueError(f"names must name {len(self.coef)} weights, got {len(names)}")
        parts = [("coefficient", names, self.coefficients)]
        if contrasts:
            combined = self.contrasts(np.array(list(contrasts.values())))
            parts.append(("difference", list(contrasts), combined))
        if self.effects is not None:
            parts.append(("average marginal effect", names[: len(self.effects.value)], self.effects))
        width = max(25, *(len(name) for _, own, _ in parts for name in own))
        low, high = f"[{0.5 - level / 2:.4g}", f"{0.5 + level / 2:.4g}]"
        head = f"{'estimate':>10} {'std err':>10} {'z':>9} {'P>|z|':>8} {low:>10} {high:>10} {'noise':>6}"
        rule = width + 1 + len(head)
        lines = [*self._heading(), "=" * rule]
        for title, own, estimates in parts:
            lines += [f"{title:<{width}} {head}", "-" * rule]
            lines += [*estimates.rows([f"{name:<{width}}" for name in own], level), "=" * rule]
        return "\n".join(lines + self._notes())

    def _names(self) -> list[str]:
        intercept = bool(self.privacy.public["fit_intercept"])
        names = [f"x{j + 1}" for j in range(len(self.coef) - intercept)]
        return names + ["(intercept)"] * intercept

    def _heading(self) -> list[str]:
        public, privacy = self.privacy.public, self.privacy
        kind = {"model": "by the model", "robust": "robust (sandwich)"}[str(public["covariance"])]
        return [
            f"noisy_newton, {public['loss']} loss, {public['n']:,} records, standard errors {kind}",
            f"epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}, {privacy.neighbors}; "
            f"records that are weighted down: {min(max(self.down_weighted, 0.0), 1.0):.1%}",
        ]

    def _notes(self) -> list[str]:
        notes = ["noise: the part of the interval's width that is due to the noise of the release."]
        refused = np.isnan(self.coefficients.standard_error)
        whole, cautious = np.diag(self.covariance), np.diag(self.cautious_covariance)
        if (~refused & (cautious >= Newton.UNCERTAIN**2 * whole)).any():
            notes.append("A standard error that the noise leaves uncertain by half is as large as it may be.")
        if (refused & (self.coef != 0.0)).any():
            notes.append("not determined: by the data, or as far as the noise lets it be known.")
        if (refused & (self.coef == 0.0)).any():
            notes.append("left out: the weight is 0, and those of other levels are differences to it.")
        return notes
