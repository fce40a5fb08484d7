"""The candidates of a search: an estimator with public settings, and fits of them to records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from dperm.data.schema.schema import Schema
from dperm.estimators.additive import solve_additive
from dperm.estimators.linear_model import PrivateLinearModel
from dperm.estimators.sklearn_searches import learning
from dperm.objective.objective import Objective
from dperm.search.scores import Records

# Parameters of the optimisation or the ridge term, which do not change how the records are read.
_NOT_OF_THE_DATA = {"l2", "solver", "solver_options", "calibration"}
# Attributes that a model sets before its solver runs.
_LEARNED = ("classes_", "pos_label_", "n_features_in_", "feature_names_in_", "_encoding")


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
        if model.additive:  # the records are encoded with bins that each fit learns
            solve_additive(model, self.X, self.y, self.counts, self.weights)
        else:
            model._solve(self._objective(model, settings))

    def fit_all(self, models: Sequence[PrivateLinearModel], settings: Sequence[Mapping[str, Any]]) -> None:
        """Fit each model."""
        for model, own in zip(models, settings, strict=True):
            self.fit(model, own)

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


# Parameters of a model that the search sets, or that must be the same for all candidates.
_OWN = (
    "epsilon",
    "delta",
    "ledger",
    "neighbors",
    "random_state",
    "n_public",
    "classes",
    "non_finite",
    "verbose",
)

Settings = Mapping[str, Any]


class Candidates:
    """Copies of an estimator, each with its own settings.

    Parameters
    ----------
    estimator : estimator
        A model of `dperm.estimators`, or a Pipeline that ends with one and whose other steps learn nothing
        from the records.
    candidates : mapping, or iterable of mappings
        A grid, or settings one by one.

    Raises
    ------
    TypeError, ValueError
        For another estimator, or settings that it does not accept or that the search sets itself.
    """

    def __init__(self, estimator: Any, candidates: Any) -> None:
        if isinstance(candidates, Mapping):
            candidates = ParameterGrid(dict(candidates))
        if isinstance(candidates, str) or not isinstance(candidates, Iterable):
            raise TypeError(
                f"candidates must be a grid, or a list of dicts of parameters, got {candidates!r}"
            )
        self.settings: list[dict[str, Any]] = [_checked(each) for each in candidates]
        if not self.settings:
            raise ValueError("candidates must hold at least one dict of parameters")
        self.estimator, self._prefix = estimator, _prefix_of_model(estimator)
        for own in self.settings:
            taken = sorted(set(own) & {self._prefix + name for name in _OWN})
            if taken:
                raise ValueError(f"candidates must not set {taken}: these are the search's own, or for all")
            made = clone(estimator).set_params(**own)
            _check_steps(made)

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def model(self) -> PrivateLinearModel:
        """The model as given, without the settings of a candidate."""
        return model_of(self.estimator)

    @property
    def schemas(self) -> list[Schema]:
        """The schemas of all candidates."""
        given = (value for own in self.settings for value in own.values())
        return [each for each in (self.model.schema, *given) if isinstance(each, Schema)]

    @property
    def firsts_of_schemas(self) -> list[int]:
        """The first candidate with each schema."""
        own = [each.get(f"{self._prefix}schema", self.model.schema) for each in self.settings]
        return [index for index, each in enumerate(own) if each not in own[:index]]

    @property
    def is_pipeline(self) -> bool:
        """Whether the model is the last step of a pipeline."""
        return bool(self._prefix)

    def make(self, index: int, **terms: Any) -> Any:
        """A copy of the estimator with the settings of a candidate, and `terms` for its model."""
        made = clone(self.estimator).set_params(**self.settings[index])
        model = model_of(made)
        if "callback" in (model.solver_options or {}):
            raise ValueError("a search shows nothing of its fits: leave the callback out of solver_options")
        model.set_params(verbose=0, neighbors=None, **terms)
        return made

    def fitted_to(self, records: Records) -> SharedRecords | PipelineRecords:
        """The records, ready to fit copies to."""
        if self._prefix:
            return PipelineRecords(records, f"{self._prefix}sample_weight")
        return SharedRecords(records.X, records.y, records.counts, records.weights)


class PipelineRecords:
    """Records for fitting pipelines one by one; `weight` is the pipeline's keyword for their weights."""

    def __init__(self, records: Records, weight: str) -> None:
        self._records = records
        self._weights = {} if records.weights is None else {weight: records.weights}

    def check(self, pipeline: Pipeline, settings: Settings) -> None:
        """Raise the errors that a fit would raise for these records."""
        X, y = self._records.X, self._records.y
        X = pipeline[:-1].fit_transform(X, y) if len(pipeline) > 1 else X
        model_of(pipeline)._objective(X, y, None, self._records.weights)

    def fit(self, pipeline: Pipeline, settings: Settings) -> None:
        """Fit a pipeline, which has its `settings` already."""
        pipeline.fit(self._records.X, self._records.y, **self._weights)

    def fit_all(self, pipelines: Iterable[Pipeline], settings: Iterable[Settings]) -> None:
        """Fit each of them."""
        for pipeline, own in zip(pipelines, settings, strict=True):
            self.fit(pipeline, own)


def model_of(estimator: Any) -> PrivateLinearModel:
    """The private model in an estimator."""
    model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(model, PrivateLinearModel):
        raise TypeError(
            "estimator must be a model of dperm.estimators, or a Pipeline that ends with one, got "
            f"{type(estimator).__name__}{'' if model is estimator else f' with {type(model).__name__}'}"
        )
    return model


def _prefix_of_model(estimator: Any) -> str:
    model_of(estimator)
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def _checked(settings: Any) -> dict[str, Any]:
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        raise TypeError(f"a candidate must be a dict of parameters by name, got {settings!r}")
    return dict(settings)


def _check_steps(estimator: Any) -> None:
    """Raise ValueError for a step that learns from the records without noise."""
    model_of(estimator)
    for name, step in estimator.steps[:-1] if isinstance(estimator, Pipeline) else ():
        if found := learning(step):
            raise ValueError(
                f"step {name!r} ({', '.join(found)}) learns from the records without noise, so nothing "
                "would be guaranteed: use a schema, a FunctionTransformer with public numbers, or a "
                "FrozenEstimator that was fitted to public data"
            )
