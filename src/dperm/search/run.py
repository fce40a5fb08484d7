"""The run of a search: split, check and price everything, charge once, then fit, select and refit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import is_classifier

from dperm._kernels.samplers import RandomBits, uniform_words
from dperm._progress import unlogged
from dperm.accounting import LedgerPart
from dperm.accounting.budget import Budget
from dperm.accounting.ledger.entry import LedgerEntry
from dperm.accounting.ledger.ledger import Allotment
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, gaussian_noise_multiplier, selection_eta, units_as_float
from dperm.errors import DataError, PrivacyWarning, warn_caller
from dperm.estimators.input_checks import warn_of_exact_number
from dperm.mechanisms.random_source import Source
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.sampling import number_of_trials, uniform_integers
from dperm.search.candidates import Candidates, PipelineRecords, SharedRecords, model_of
from dperm.search.plan import NotAdditive, SearchPlan, SearchTerms, affordable, plan_with_slack
from dperm.search.scores import HeldOut, Records, Scoring

_DESCRIPTION = "PrivateSearch"

# Signal-to-noise number ``n mu / sqrt(dimension)`` of a fit below which a search over ridge strengths was at
# least half a percentage point of accuracy worse than the default settings.
MIN_SIGNAL = 100.0

# Models fitted before their scores are released, in whose order seeds are drawn.
_AT_ONCE = 32


class SearchRun:
    """The records of a search, split in two by secret coins, and how the budget is spent on them.

    The constructor makes all checks, before anything is charged.

    Parameters
    ----------
    candidates : Candidates
    plan : SearchPlan
    terms : SearchTerms
    source : Source
        Randomness of coins, noise and choices.
    records : Records
        All records.
    scoring : Scoring
    validation_share : float
        Probability that a record is held out for the scores.
    """

    def __init__(
        self,
        candidates: Candidates,
        plan: SearchPlan,
        terms: SearchTerms,
        source: Source,
        records: Records,
        scoring: Scoring,
        validation_share: float,
    ) -> None:
        self.candidates, self.plan, self.terms, self.scoring = candidates, plan, terms, scoring
        self._source, self._bits, self._share = source, RandomBits(source.spawn(1)[0]), validation_share
        self._key = uniform_words(self._bits, 4).tobytes()
        self._labels: dict[str, Any] = {}
        self.is_counted = records.counts is not None
        given = candidates.model.n_public
        self.n = records.number if given is None else given
        self.publishes_number = given is None and terms.neighbors is Neighbours.ADD_OR_REMOVE
        if given is None:
            warn_of_exact_number(terms.neighbors, terms.ledger)
        self._all_records = candidates.fitted_to(records)
        whole, train, _ = self._allot(plan.fit)
        first = self._make(0, whole, whole.epsilon, self.n)
        self._all_records.check(first, candidates.settings[0])
        for index in candidates.firsts_of_schemas[1:]:  # a cell may suit one schema and not another
            self._all_records.check(
                self._make(index, whole, whole.epsilon, self.n), candidates.settings[index]
            )
        if is_classifier(first) and candidates.model.classes is None:  # a part may lack some labels
            self._labels = {"classes": model_of(first).classes_}
        taken, held = records.split(train)
        n, n_taken = len(records.targets), len(taken.targets)
        if not n_taken:
            raise DataError(f"the split left no record to train on: n_samples={n}")
        replaced = terms.neighbors is Neighbours.REPLACE_ONE
        self.n_train = train.size_cap(n) if replaced else train.n_public(self.n)
        self._records = candidates.fitted_to(taken)
        try:
            priced = self._price_all()
        except NotAdditive:
            self.plan = plan_with_slack(terms)
            priced = self._price_all()
        self._held = HeldOut(held, scoring, None if candidates.is_pipeline else candidates.model)
        self._warn_of_little_signal(priced)

    def _allot(self, units: int) -> tuple[Allotment, LedgerPart, LedgerPart]:
        """A part of the budget, for all records and for the training and validation part."""
        terms = self.terms
        own = Allotment(units, terms.delta, terms.accountant, terms.neighbors, terms.ledger, self.plan.slack)
        return own, *own.split_by(self._key, self._share)

    def _make(self, index: int, ledger: Any, epsilon: float, n: int) -> Any:
        """A copy of a candidate, ready to be fitted or priced."""
        source = self._source.spawn(1)[0]
        return self.candidates.make(
            index,
            epsilon=epsilon,
            delta=self.terms.delta,
            ledger=ledger,
            random_state=source,
            n_public=n,
            **self._labels,
        )

    def _price_all(self) -> list[LedgerEntry]:
        """Find the largest epsilon of each fit; returns the charges of the fits on the training part."""
        priced = self._priced(self._records, self._allot(self.plan.fit)[1], self.n_train)
        self.epsilons = [each.epsilon for each in priced]
        if self.plan.refit:
            again = self._priced(self._all_records, self._allot(self.plan.refit)[0], self.n)
            self._refit_epsilons = [each.epsilon for each in again]
        return priced

    def _priced(self, records: SharedRecords | PipelineRecords, ledger: Any, n: int) -> list[LedgerEntry]:
        """The charge of each candidate's fit."""

        def charge_of(index: int) -> LedgerEntry:
            def price(epsilon: float) -> Any:
                return ledger.cost_of(
                    lambda ledger: records.fit(
                        self._make(index, ledger, epsilon, n), self.candidates.settings[index]
                    )
                )

            with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # nothing is charged yet
                return affordable(price, ledger.caps, self.terms.delta, self.terms.accountant)

        return [charge_of(index) for index in range(len(self.candidates))]

    def _warn_of_little_signal(self, priced: list[LedgerEntry]) -> None:
        terms, amount = self.terms, units_as_float(self.plan.fit)
        mu = math.sqrt(amount if terms.accountant is Accountant.GDP else 2.0 * amount)
        dimension = min(each.statement["dimension"] for each in priced)
        if self.n_train * mu / terms.neighbors.sum_factor / math.sqrt(dimension) < MIN_SIGNAL:
            warn_caller(
                f"the budget of a fit in this search, mu={mu:.3g}, is small for {self.n_train} records and "
                f"{dimension} weights: a single model with default settings and the whole budget is probably "
                "better",
                UserWarning,
            )

    # -- the charge -------------------------------------------------------------------------------------

    def charge(self, facts: dict[str, Any]) -> Releaser:
        """Charge the whole search, the last step before the records are used."""
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
        # The number of warnings and log lines would reveal the number of trials.
        with unlogged(), warnings.catch_warnings(action="ignore"):
            index, model = self._best_of_all(release) if self.plan.law is None else self._best_of_trials()
            if self.plan.refit:
                whole = self._allot(self.plan.refit)[0]
                model = self._make(index, whole, self._refit_epsilons[index], self.n)
                self._all_records.fit(model, self.candidates.settings[index])
        return index, model

    def _best_of_all(self, release: Releaser) -> tuple[int, Any]:
        """Train every candidate, and select one by the exponential mechanism."""
        indices = range(len(self.candidates))
        if self.plan.slack:  # what a ledger grants depends on what it has left: one part for each candidate
            parts = [self._allot(self.plan.fit)[1] for _ in indices]
        else:
            parts = [self._allot(self.plan.choice)[1]] * len(indices)
        models = [self._make(k, parts[k], self.epsilons[k], self.n_train) for k in indices]
        self._fit(indices, models)
        chosen = release.select(
            self._held.scores(models), selection_eta(self.plan.choice, self.plan.accountant)
        )
        return chosen, models[chosen]

    def _best_of_trials(self) -> tuple[int, Any]:
        """Draw, train and score candidates; the best score wins, and among equal ones the first candidate."""
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
        """Run trials, each with its own budget: noisy score, candidate, model."""
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
