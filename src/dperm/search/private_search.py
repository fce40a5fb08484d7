"""Private hyperparameter search: the best of several settings, chosen and trained within one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dperm.accounting import PrivacyLedger
from dperm.accounting._checks import check_delta, check_positive, check_real
from dperm.accounting.ledger.ledger import check_ledger
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import units_as_float
from dperm.data.dask_collections import is_dask_collection
from dperm.estimators.design import learned_exactly, schema_facts
from dperm.estimators.input_checks import labelled, missing_labels_named
from dperm.estimators.mixins import PrivacyDiagram, StoredWithoutLedger
from dperm.mechanisms.random_source import RandomState, random_source
from dperm.mechanisms.release import Releaser
from dperm.search.candidates import Candidates, model_of
from dperm.search.plan import METHODS, SearchTerms, search_plan
from dperm.search.run import SearchRun
from dperm.search.scores import Records, scoring_of
from dperm.statement.facts import charge_note
from dperm.statement.privacy_statement import PrivacyStatement
from dperm.statement.words import unit

Method = TypeVar("Method", bound=Callable[..., Any])


def _of_the_best(method: Method) -> Method:
    """A method that exists if the winner has it."""

    def winner_has_it(search: PrivateSearch) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), method.__name__)

    return cast(Method, available_if(winner_has_it)(method))


class PrivateSearch(PrivacyDiagram, StoredWithoutLedger, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose the best of several settings and train a model with them, within one privacy budget.

    The records are split by secret coins. Models are trained on one part and scored on the other, and only
    the winner is released: everything that `fit` sets is (epsilon, delta)-differentially private. The whole
    search is charged at once, before the first fit, or refused.

    Parameters
    ----------
    estimator : estimator
        A model of :mod:`dperm.estimators`, or a scikit-learn Pipeline that ends with one and whose other
        steps learn nothing from the records. Its own epsilon, delta, neighbors, ledger and random_state are
        not used. Fits must cost mu^2 or rho; those with secret batches (``solver="dp_sgd"``) also cost a
        slack in delta and need ``method="all_candidates"``. Solvers whose proof needs a bound on the number
        of records need ``neighbors="replace_one"``.
    candidates : mapping, or iterable of mappings
        Public settings: a grid as for `sklearn.model_selection.ParameterGrid`, or settings one by one (a
        list, a ParameterGrid, a ParameterSampler).
    epsilon, delta : float
        Total budget, finite and greater than 0.
    method : {"auto", "all_candidates", "random_trials"}
        "all_candidates" trains every candidate, each with a share of the budget, and selects one by the
        exponential mechanism. "random_trials" trains a secret, random number of randomly drawn candidates,
        each with a budget that hardly depends on the number of candidates; a candidate is tried with
        probability 0.9, about nine times on average. "auto" takes the one that gives each model more budget,
        if the ledger can afford it.
    refit : bool, default=False
        Train the winner again on all records, with a separate part of the budget.
    refit_share : float, default=0.5
        Share of the budget that `refit` takes.
    validation_share : float, default=0.2
        Probability that a record is held out for the scores.
    scoring : str, optional
        What is summed over the held-out records. For classifiers "errors", the default. For regressors
        "absolute_error", "squared_error", or by default the loss of `estimator` (with its own parameters, for
        all candidates). A record's loss is clipped at the largest loss of the prediction 0, then multiplied
        by its `sample_weight` and by the weight of its label in the `class_weight` of `estimator`.
    ledger : PrivacyLedger, optional
        Shared budget. Random trials cost a pure epsilon in addition to mu^2 or rho: with ``pure=0`` they can
        only take the whole of an unused ledger.
    neighbors : {"add_or_remove", "replace_one"}, optional
        By default the ledger's relation, or "add_or_remove" without a ledger.
    random_state : None, int, Generator or RandomState, default=None
        None draws cryptographic coins and noise. Anything else is for tests.

    Attributes
    ----------
    best_params_ : dict
    best_index_ : int
        Index of the winner among the candidates.
    best_estimator_ : estimator
        The winner, trained.
    cv_results_ : dict of arrays
        The public facts of each candidate: its parameters, the epsilon of a fit, and whether it won. There
        are no scores, since those would cost budget. (`dperm.metrics` evaluates the winner.)
    method_ : str
        The method used.
    privacy_ : PrivacyStatement
        The guarantee for the whole search.

    Notes
    -----
    *All candidates.* A record is in one part only, so fits and selection together cost the larger of the two:
    with k candidates each fit has ``mu/sqrt(k)``, and the selection the whole mu
    (:mod:`dperm.accounting.ledger.account`).

    *Random trials.* The number of trials has a geometric distribution, and shows only in the time that the
    search takes. For its cost see :mod:`dperm.accounting.random_trials`.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (20000, 2))
    >>> y = np.where(X @ [2.0, -1.0] > 0.3, 1, -1)
    >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
    >>> candidates = {"fit_intercept": [False, True]}
    >>> search = dperm.PrivateSearch(model, candidates, epsilon=1.0, delta=1e-6, random_state=0)
    >>> search.fit(X, y).best_params_
    {'fit_intercept': True}
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        epsilon: float,
        delta: float,
        *,
        method: str = "auto",
        refit: bool = False,
        refit_share: float = 0.5,
        validation_share: float = 0.2,
        scoring: str | None = None,
        ledger: PrivacyLedger | None = None,
        neighbors: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.refit = refit
        self.refit_share = refit_share
        self.validation_share = validation_share
        self.scoring = scoring
        self.ledger = ledger
        self.neighbors = neighbors
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        counts: ArrayLike | None = None,
        drop_missing_labels: bool = False,
    ) -> Self:
        """Search among the candidates with records ``X`` and labels or real targets ``y``.

        Parameters
        ----------
        X, y
            As the estimator takes them: in memory, or files (`dperm.data.scan_parquet`, `scan_csv`) with
            ``y=None``, where every pass skips the records of the other part.
        sample_weight : (n_samples,) array_like, optional
            Private weights of the records, in fits and in scores; clipped at the `weight_bound` of
            `estimator`. Not for files.
        counts : (n_samples,) array_like of int, optional
            How many records each row stands for; not with pipelines, nor with ``neighbors="replace_one"``.
        drop_missing_labels : bool, default=False
            Leave out records without a label or target, as the estimators do.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments, candidates or data. Nothing is charged.
        BudgetExceededError
            If the ledger cannot afford the search. Nothing is charged.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> ledger = dperm.accounting.Ledger(epsilon=2.0, delta=1e-6)
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, ledger=ledger)
        >>> sorted(search.fit(X, np.sign(X[:, 0])).best_params_)
        ['l2']
        >>> ledger.spent, search.privacy_.epsilon
        (1.0, 1.0)
        """
        candidates = Candidates(self.estimator, self.candidates)
        terms, source = self._terms(len(candidates)), random_source(self.random_state)
        if drop_missing_labels:
            X, y, counts, sample_weight = labelled(terms.neighbors, X, y, counts, sample_weight)
        records = Records(X, y, counts, sample_weight)
        with missing_labels_named(y):
            _check_data(records, candidates, terms.neighbors)
        scoring = scoring_of(self.scoring, candidates.model, weighted=sample_weight is not None)
        plan = search_plan(self.method, terms)
        share = _share("validation_share", self.validation_share)
        run = SearchRun(candidates, plan, terms, source, records, scoring, share)
        facts = self._facts(run)
        release = run.charge(facts)
        index, best = run.search(release)
        privacy, table = self._statement(run, release, facts), _table(candidates, run.epsilons, index)
        model = model_of(best)
        own = {"ledger": self.ledger, "neighbors": self.neighbors, "n_public": candidates.model.n_public}
        model.set_params(random_state=None, **own)
        model.privacy_ = privacy
        # Together, at the end: a search that fails leaves the results of the one before.
        self.best_index_, self.best_estimator_, self.best_params_ = index, best, candidates.settings[index]
        self.method_, self.cv_results_, self.privacy_ = run.plan.method, table, privacy
        return self

    def _terms(self, count: int) -> SearchTerms:
        """The validated public numbers."""
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {self.method!r}")
        if not isinstance(self.refit, bool):
            raise TypeError(f"refit must be True or False, got {self.refit!r}")
        ledger = None if self.ledger is None else check_ledger(self.ledger)
        return SearchTerms(
            count,
            check_positive(self.epsilon, "epsilon"),
            check_delta(self.delta),
            _share("refit_share", self.refit_share) if self.refit else 0.0,
            relation_of(self.neighbors, ledger),
            ledger,
            self.method,
        )

    def _facts(self, run: SearchRun) -> dict[str, Any]:
        """The public facts, for the ledger and the statement."""
        plan, candidates = run.plan, run.candidates
        own = {
            "n": run.n,
            **schema_facts(candidates.model.schema),
            **learned_exactly(*candidates.schemas),
            **({"exact_n": True} if run.publishes_number else {}),
            "estimator": type(candidates.model).__name__,
            "candidates": len(candidates),
            "parameters": ", ".join(sorted({name for own in candidates.settings for name in own})) or "none",
            "method": plan.method,
            "scoring": run.scoring.name,
            "validation_share": self.validation_share,
            f"{plan.accountant.symbol} of a fit": units_as_float(plan.fit),
        }
        if plan.law is not None:
            own["expected trials"] = round(plan.law.mean)
        if plan.refit:
            own["refit_share"] = self.refit_share
        if plan.slack:
            own["slack in delta of a fit"] = plan.slack
        return own

    def _statement(self, run: SearchRun, release: Releaser, facts: Mapping[str, Any]) -> PrivacyStatement:
        plan, terms, model = run.plan, run.terms, run.candidates.model
        gaussian = plan.law is None
        total = units_as_float(plan.budget.total_units)
        return PrivacyStatement(
            epsilon=terms.epsilon,
            delta=terms.delta,
            neighbors=terms.neighbors,
            mechanism=_MECHANISM[plan.method] + (_REFIT if plan.refit else ""),
            accountant=str(plan.budget.accountant),
            sampling=_SAMPLING,
            row_norm=model._row_norm(),
            random=release.random,
            non_finite=model.non_finite,
            mu=math.sqrt(total) if gaussian and plan.accountant == "gdp" and not plan.slack else None,
            rho=total if gaussian and plan.accountant == "zcdp" else None,
            ledger=charge_note(terms.ledger, terms.epsilon, terms.delta),
            public=facts,
            unit=unit("training data", counted=run.is_counted),
            notes=() if gaussian else (_SECRET_COUNT,),
        )

    # -- the winner as a model --------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels of the winner, a classifier."""
        return np.asarray(self._best().classes_)

    @property
    def pos_label_(self) -> Any:
        """The positive label of the winner, a classifier of two classes."""
        return self._best().pos_label_

    @property
    def n_features_in_(self) -> int:
        """Number of columns of ``X``."""
        return int(self._best().n_features_in_)

    @_of_the_best
    def predict(self, X: Any) -> Any:
        """The winner's predictions.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, random_state=0)
        >>> search = search.fit(X, np.sign(X[:, 0]))
        >>> search.predict([[0.5, 0.0], [-0.5, 0.0]])
        array([ 1, -1])
        """
        return self._best().predict(X)

    @_of_the_best
    def predict_proba(self, X: Any) -> Any:
        """The winner's class probabilities.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, random_state=0)
        >>> search = search.fit(X, np.sign(X[:, 0]))
        >>> search.predict_proba([[0.5, 0.0], [-0.5, 0.0]]).argmax(axis=1)
        array([1, 0])
        """
        return self._best().predict_proba(X)

    @_of_the_best
    def predict_log_proba(self, X: Any) -> Any:
        """The winner's logarithms of class probabilities.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, random_state=0)
        >>> search = search.fit(X, np.sign(X[:, 0]))
        >>> np.exp(search.predict_log_proba([[0.5, 0.0]])).sum(axis=1)
        array([1.])
        """
        return self._best().predict_log_proba(X)

    @_of_the_best
    def decision_function(self, X: Any) -> Any:
        """The winner's scores.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, random_state=0)
        >>> search = search.fit(X, np.sign(X[:, 0]))
        >>> search.decision_function([[0.5, 0.0], [-0.5, 0.0]]) > 0
        array([ True, False])
        """
        return self._best().decision_function(X)

    @_of_the_best
    def score(self, X: Any, y: Any) -> float:
        """The winner's score; not private.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 2))
        >>> model = dperm.LogisticRegression(row_norm=1.3, classes=[-1, 1])
        >>> search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, random_state=0)
        >>> search = search.fit(X, np.sign(X[:, 0]))
        >>> search.score(X, np.sign(X[:, 0])) > 0.9
        True
        """
        return float(self._best().score(X, y))

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Tags:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        tags.non_deterministic = self.random_state is None
        return tags


_MECHANISM = {
    "all_candidates": "every candidate trained on a random part of the records with an equal share of the "
    "budget, one of them chosen by the exponential mechanism on the others",
    "random_trials": "a secret random number of candidates, drawn at random, trained on a random part of the "
    "records and scored with Gaussian noise on the others, the best of them released",
}
_REFIT = ", and trained again on all records"
_SAMPLING = "a fixed part of the records to train on, the others to score; which record is in which is secret"
_SECRET_COUNT = (
    "The number of trials is secret, and the guarantee does not cover it: do not publish how long the search "
    "took."
)


def _share(name: str, value: float) -> float:
    return check_real(value, name, "a number strictly between 0 and 1", lambda share: 0.0 < share < 1.0)


def _check_data(records: Records, candidates: Candidates, neighbors: Neighbours) -> None:
    """Raise for data that cannot be split, or whose parts the model cannot be fitted to."""
    X, counts = records.X, records.counts
    if is_dask_collection(X):
        raise TypeError(
            "a search splits its records by their content, which a Dask collection computes again in every "
            "pass: write it to Parquet files and pass dperm.data.scan_parquet(...), or load it into memory"
        )
    if records.in_files:
        if candidates.is_pipeline:
            raise ValueError("a pipeline takes no files: give the model a schema in place of the other steps")
        if counts is not None or records.weights is not None:
            raise ValueError("files take no counts and no sample_weight: load them into memory")
        if candidates.model.non_finite == "zero" and candidates.model.schema is None:
            raise ValueError("files with non_finite='zero' need a schema: predictions need finite records")
    if counts is not None and candidates.is_pipeline:
        raise ValueError("a pipeline takes no counts: give each record a row of its own")
    if counts is not None and neighbors is Neighbours.REPLACE_ONE:
        raise ValueError(
            "under replace_one records are split by their position, which a row of several records does not "
            "have: give each record a row of its own, or use neighbors='add_or_remove'"
        )


def _table(candidates: Candidates, epsilons: list[float], best: int) -> dict[str, Any]:
    names = list(dict.fromkeys(name for own in candidates.settings for name in own))
    columns: dict[str, Any] = {"params": candidates.settings}
    for name in names:
        column = np.empty(len(candidates), dtype=object)
        column[:] = [own.get(name) for own in candidates.settings]
        columns[f"param_{name}"] = column
    return columns | {"epsilon": np.array(epsilons), "chosen": np.arange(len(candidates)) == best}
