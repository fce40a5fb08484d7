"""Fits of several models to the same records, which are validated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from dperm.estimators.linear_model import PrivateLinearModel
from dperm.objective.objective import Objective

# Parameters of the optimisation or the ridge term, which do not change how the records are read.
_NOT_OF_THE_DATA = {"l2", "solver", "solver_options", "calibration"}
# Attributes that a model sets before its solver runs.
_LEARNED = ("classes_", "n_features_in_", "feature_names_in_", "_encoding")


class SharedRecords:
    """Records for fitting models that differ in some of their parameters.

    Parameters
    ----------
    X, y, counts, weights
        As in the models' ``fit``.
    """

    def __init__(
        self, X: Any, y: Any, counts: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> None:
        self.X, self.y, self.counts, self.weights = X, y, counts, weights
        self._prepared: list[tuple[dict[str, Any], PrivateLinearModel, Objective]] = []

    def check(self, model: PrivateLinearModel, settings: Mapping[str, Any]) -> None:
        """Raise the errors that a fit would raise for these records."""
        self._objective(model, settings)

    def fit(self, model: PrivateLinearModel, settings: Mapping[str, Any]) -> None:
        """Like ``model.fit``; `settings` are the parameters in which the model may differ from the others."""
        model._solve(self._objective(model, settings))

    def fit_all(self, models: Sequence[PrivateLinearModel], settings: Sequence[Mapping[str, Any]]) -> None:
        """Fit each model.

        For `noisy_gd` ``learn_scales="auto"`` means False, so that candidates are compared in the same
        coordinates.
        """
        for model, own in zip(models, settings, strict=True):
            objective = self._objective(model, own)
            call = model._call(objective)
            if call.name == "noisy_gd" and not objective.weighs_privately:
                call.arguments["learn_scales"] = call.arguments["learn_scales"] is True
            model._take(call.run(objective))

    def _objective(self, model: PrivateLinearModel, settings: Mapping[str, Any]) -> Objective:
        """The objective of the model; sets the attributes that depend on the records alone."""
        seen = {name: value for name, value in settings.items() if name not in _NOT_OF_THE_DATA}
        for known, like, objective in self._prepared:
            if _equal(known, seen):
                model._check_parameters()
                for name in _LEARNED:
                    if hasattr(like, name):
                        setattr(model, name, getattr(like, name))
                return objective.with_ridge(model.l2)
        objective = model._objective(self.X, self.y, self.counts, self.weights)
        self._prepared.append((seen, model, objective))
        return objective


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # comparing arrays
        return False
