"""Confidence intervals of the estimators that have a solver with standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm.algorithms.fit import FitResult
from dperm.algorithms.inference import InferenceResult
from dperm.data.schema.columns import Categorical, Numeric
from dperm.data.schema.schema import Schema
from dperm.estimators.design import FittedDesign


class WithStandardErrors:
    """Intervals and a table of the weights, after a fit with ``solver="noisy_newton"``.

    Attributes
    ----------
    inference_ : InferenceResult or None
        What the solver found; None after a fit with another solver.
    """

    solver: str
    schema: Schema | None
    fit_intercept: bool
    solver_options: Any
    _design: FittedDesign
    inference_: InferenceResult | None

    def conf_int(self, level: float = 0.95) -> NDArray[np.float64]:
        """Confidence intervals of the weights, those of ``coef_`` and then that of ``intercept_``.

        Parameters
        ----------
        level : float
            Probability with which each covers.

        Returns
        -------
        ndarray of shape (n_weights, 2)
            NaN where refused: the data, or the noise, do not let the weight be known.

        Raises
        ------
        AttributeError
            After a fit with another solver than "noisy_newton".
        """
        return self._inference().conf_int(level)

    def summary(self, level: float = 0.95) -> str:
        """A table of the weights with standard errors, z, p and intervals, as text to print.

        Of each factor of a schema beside an intercept, the first level is left out: the weights of the others
        are differences to it.
        """
        text = self._inference().summary(self._names_of_weights(), level=level)
        if self._design.schema is not None:
            text += "\nNumbers are scaled to [0, 1] by their public bounds: a weight is of the whole range."
        return text

    def _inference(self) -> InferenceResult:
        check_is_fitted(self)
        if self.inference_ is None:
            raise AttributeError(
                f"solver={self.solver!r} gives no standard errors: fit with solver='noisy_newton' for them"
            )
        return self.inference_

    def _names_of_weights(self) -> list[str] | None:
        if self._design.schema is not None:
            names = list(self._design.schema.feature_names)
        elif hasattr(self, "feature_names_in_"):
            names = [str(name) for name in self.feature_names_in_]
        else:
            return None
        return names + ["(intercept)"] * self._design.fit_intercept

    def _options_of_solver(self) -> Any:
        """Those given, and the levels that a schema's factors leave out."""
        if self.solver != "noisy_newton" or self.schema is None or "omit" in (self.solver_options or {}):
            return self.solver_options
        return {"omit": reference_levels(self.schema, self.fit_intercept), **(self.solver_options or {})}

    def _keep_inference(self, result: FitResult) -> None:
        self.inference_ = result if isinstance(result, InferenceResult) else None


def reference_levels(schema: Schema, fit_intercept: bool) -> list[int]:
    """Columns of the design matrix without which none is a sum of others, by the schema alone.

    The first column of each factor that always has one of its levels; without an intercept but of the first
    factor.
    """
    found, place = [], 0
    for column in schema.columns:
        if _has_a_level(column):
            found.append(place)
        place += len(column.feature_names)
    return found if fit_intercept else found[1:]


def _has_a_level(column: Categorical | Numeric) -> bool:
    """Whether one of a column's indicators is 1 in every record."""
    if isinstance(column, Categorical):
        return "zero" not in (column.unknown, column.missing)
    return column.bins is not None and column.missing != "zero"
