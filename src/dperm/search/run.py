"""One search under way: split, check and price everything, charge once, then fit, choose and fit again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from dperm._kernels.samplers import RandomBits, uniform_words
from dperm.accounting import Budget, LedgerPart, Neighbours, gaussian_noise_multiplier, selection_eta
from dperm.accounting.ledger.allotment import Allotment
from dperm.data.multiplicity import Multiplicity
from dperm.estimators.input_checks import class_labels
from dperm.estimators.shared_records import SharedRecords
from dperm.mechanisms.random_source import Source
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import number_of_trials, uniform_integers
from dperm.search.candidates import Candidates, PipelineRecords
from dperm.search.plan import SearchPlan, SearchTerms, affordable_epsilon
from dperm.search.scores import HeldOut, Scoring

_DESCRIPTION = "PrivateSearch"

# Models that are fitted in lockstep at most.
_AT_ONCE = 32


class SearchRun:
    """The records of a search, split in two by secret coins, and how its budget is spent on them.

    Everything that can be refused is refused here.

    Parameters
    ----------
    candidates : Candidates
    plan : SearchPlan
    terms : SearchTerms
    source : Source
        Of coins, noise and choices.
    X, y, counts
        All records, in memory.
    scoring : Scoring
    validation_share : float
        Probability that a record is not trained on but scored.
    """

    def __init__(
        self,
        candidates: Candidates,
        plan: SearchPlan,
        terms: SearchTerms,
        source: Source,
        data: tuple[Any, Any, ArrayLike | None],
        scoring: Scoring,
        validation_share: float,
    ) -> None:
        self.candidates, self.plan, self.terms, self.scoring = candidates, plan, terms, scoring
        self._source, self._bits, self._share = source, RandomBits(source.spawn(1)[0]), validation_share
        self._key = uniform_words(self._bits, 4).tobytes()
        self._classes = _public_classes(candidates, data[1])
        given = candidates.model.n_public
        self.n = number_of_records(data) if given is None else given
        whole, train, validation = self._allot(plan.fit)
        taken, held = _take(train, data), _take(validation, data)
        replaced = terms.neighbors is Neighbours.REPLACE_ONE
        self.n_train = max(1, train.size_cap(self.n)) if replaced else train.n_public(self.n)
        self._records = candidates.records(*taken)
        self.epsilons = self._priced(self._records, train, self.n_train)
        self._all_records = candidates.records(*data)
        if plan.refit:
            self._refit_epsilons = self._priced(self._all_records, self._allot(plan.refit)[0], self.n)
        if len(held[1]):
            candidates.records(*held).check(self._make(0, whole, self.epsilons[0], self.n))
        self._held = HeldOut(*held, scoring, None if candidates.is_pipeline else candidates.model)

    def _allot(self, units: int) -> tuple[Allotment, LedgerPart, LedgerPart]:
        """A part of the budget, and the same for the training records and those to score."""
        terms = self.terms
        own = Allotment(units, terms.delta, terms.accountant, terms.neighbors, terms.ledger)
        return own, *own.split_by(self._key, self._share)

    def _make(self, index: int, ledger: Any, epsilon: float, n: int) -> Any:
        """A copy of a candidate that is about to be fitted, or priced."""
        terms: dict[str, Any] = {} if self._classes is None else {"classes": self._classes}
        source = self._source.spawn(1)[0]
        return self.candidates.make(
            index,
            epsilon=epsilon,
            delta=self.terms.delta,
            ledger=ledger,
            random_state=source,
            n_public=n,
            **terms,
        )

    def _priced(self, records: SharedRecords | PipelineRecords, ledger: Any, n: int) -> list[float]:
        """Of each candidate the epsilon that its fit can have."""

        def epsilon_of(index: int) -> float:
            def price(epsilon: float) -> Any:
                return ledger.cost_of(
                    lambda ledger: records.fit(
                        self._make(index, ledger, epsilon, n), self.candidates.settings[index]
                    )
                )

            return affordable_epsilon(price, ledger.caps.units, self.terms.delta, self.terms.accountant)

        return [epsilon_of(index) for index in range(len(self.candidates))]

    # -- the charge -------------------------------------------------------------------------------------

    def charge(self, facts: dict[str, Any]) -> Releaser:
        """Charge the whole search: the last thing before anything is drawn from the records."""
        terms = self.terms
        return Releaser(
            terms.epsilon,
            terms.delta,
            self.plan.budget,
            neighbors=terms.neighbors,
            ledger=terms.ledger,
            random_state=self._source,
            description=_DESCRIPTION,
            statement=facts,
        )

    # -- afterwards -------------------------------------------------------------------------------------

    def search(self, release: Releaser) -> tuple[int, Any]:
        """The index of the best candidate, and the model."""
        with warnings.catch_warnings():  # how many there are may tell the number of trials
            warnings.simplefilter("ignore")
            index, model = self._best_of_all(release) if self.plan.law is None else self._best_of_trials()
            if self.plan.refit:
                whole = self._allot(self.plan.refit)[0]
                model = self._make(index, whole, self._refit_epsilons[index], self.n)
                self._all_records.fit(model, self.candidates.settings[index])
        return index, model

    def _best_of_all(self, release: Releaser) -> tuple[int, Any]:
        """Every candidate is trained, and one is chosen by the exponential mechanism."""
        train = self._allot(self.plan.choice)[1]
        indices = range(len(self.candidates))
        models = [self._make(index, train, self.epsilons[index], self.n_train) for index in indices]
        self._fit(indices, models)
        chosen = release.select(
            self._held.scores(models), selection_eta(self.plan.choice, self.plan.accountant)
        )
        return chosen, models[chosen]

    def _best_of_trials(self) -> tuple[int, Any]:
        """Candidates are drawn, trained and scored; of the best scores the first candidate is returned."""
        assert self.plan.law is not None
        count = number_of_trials(self._bits, self.plan.law)
        drawn = uniform_integers(self._bits, len(self.candidates), count).tolist()
        best: tuple[float, int, Any] | None = None
        for start in range(0, count, _AT_ONCE):
            for trial in self._trials(drawn[start : start + _AT_ONCE]):
                best = trial if best is None or trial[:2] < best[:2] else best
        assert best is not None
        return best[1:]

    def _trials(self, indices: Sequence[int]) -> list[tuple[float, int, Any]]:
        """Trials, each with a budget of its own: noisy score, candidate, model."""
        parts = [self._allot(self.plan.fit)[1:] for _ in indices]
        models = [
            self._make(index, train, self.epsilons[index], self.n_train)
            for index, (train, _) in zip(indices, parts, strict=True)
        ]
        self._fit(indices, models)
        scores = [self._noisy_score(model, held) for model, (_, held) in zip(models, parts, strict=True)]
        return list(zip(scores, indices, models, strict=True))

    def _noisy_score(self, model: Any, ledger: LedgerPart) -> float:
        units, terms = ledger.caps.units, self.terms
        release = Releaser(
            ledger.epsilon,
            ledger.delta,
            Budget(units, terms.accountant),
            neighbors=terms.neighbors,
            ledger=ledger,
            random_state=self._source.spawn(1)[0],
            description="score",
        )
        noise = gaussian_noise_multiplier(units, terms.accountant)
        return float(release.gaussian_sum(self._held.score(model), noise)[0])

    def _fit(self, indices: Sequence[int], models: Sequence[Any]) -> None:
        self._records.fit_all(models, [self.candidates.settings[index] for index in indices])


def number_of_records(data: tuple[Any, Any, ArrayLike | None]) -> int:
    """As the records stand, counts included."""
    X, _, counts = data
    if counts is not None:
        return Multiplicity(counts).n_records
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _take(part: LedgerPart, data: tuple[Any, Any, ArrayLike | None]) -> tuple[Any, Any, Any]:
    X, y, counts = data
    if counts is None:
        return (*part.take(X, y), None)
    taken: tuple[Any, Any, Any] = part.take(X, y, counts)
    return taken


def _public_classes(candidates: Candidates, y: Any) -> NDArray[Any] | None:
    """The labels of all records, read once, where they are not given."""
    model = candidates.model
    if not is_classifier(model) or model.classes is not None:
        return None
    return class_labels(np.asarray(y), None, private=True, max_classes=model._max_classes)
