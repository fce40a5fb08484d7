"""From the releases to a schema with its report and its statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dperm.data.schema.columns import Categorical, SchemaColumn
from dperm.data.schema.schema import Schema
from dperm.data.schema.table_columns import Category
from dperm.errors import DataError, PrivacyWarning, warn_caller
from dperm.mechanisms.release import Releaser
from dperm.schema_learning.bounds import OUTSIDE, LearnedBounds
from dperm.schema_learning.histograms import LARGEST_EXPONENT, LEAST_EXPONENT, Grid
from dperm.schema_learning.kinds import Kinds
from dperm.schema_learning.terms import Terms
from dperm.statement.charges import charge_note
from dperm.statement.privacy_statement import PrivacyStatement


@dataclass(frozen=True)
class Learned:
    """What was released about the columns."""

    kinds: Kinds
    bounds: Mapping[str, LearnedBounds]  # of the numeric columns with significant counts
    #: Of the categorical columns: published values and their noisy counts.
    categories: Mapping[str, Mapping[Category, int]]
    sigma: float  # standard deviation of the noise of such a count

    def schema(self, statement: PrivacyStatement) -> Schema:
        """The learned schema.

        Raises
        ------
        DataError
            If nothing was learned.

        Warns
        -----
        PrivacyWarning
            If a column had to be left out, or fewer than two values of the label were published.
        """
        label, names = self.kinds.label, self.kinds.names
        described = {name: each for name in names if name != label and (each := self._column(name))}
        left_out = [name for name in self.kinds.counted if name not in described and name != label]
        if not described:
            raise DataError(
                f"no column stood out from the noise ({self.sigma:.3g} in a count): the budget is too small "
                "for these records. The charge stays"
            )
        self._warn(left_out)
        ignored = [name for name in names if name in (*left_out, *self.kinds.ignored)]
        facts: dict[str, Any] = {
            "report": [self._report(name) for name in names if name in self.kinds.counted]
        }
        if label is not None and label in self.categories:
            facts |= {"label": label, "classes": list(self.categories[label])}
        elif label is not None and label in self.bounds:
            facts |= {"label": label, "target_bounds": [self.bounds[label].low, self.bounds[label].high]}
        stated = {key: value for key, value in statement.to_dict().items() if value is not None}
        return Schema._learned_as(list(described.values()), "", ignored, {**facts, "privacy": stated})

    def _column(self, name: str) -> SchemaColumn | None:
        if name in self.bounds:
            return self.bounds[name].column(name)
        shown = self.categories.get(name)
        return Categorical(name, list(shown), unknown="zero", missing="zero") if shown else None

    def _warn(self, left_out: list[str]) -> None:
        problems = [
            f"nothing of column {name!r} stood out from the noise: it is ignored" for name in left_out
        ]
        classes = self.categories.get(self.kinds.label or "")
        if classes is not None and len(classes) < 2:
            problems.append(
                f"of the label {self.kinds.label!r} {'one value' if classes else 'no value'} showed, and a "
                "classifier needs two: name them yourself (classes=...)"
            )
        if problems:
            warn_caller("; ".join(problems), PrivacyWarning)

    def _records(self) -> float:
        """Noisy number of records, estimated from the column with the most."""
        sums = [float(sum(each.values())) for each in self.categories.values()]
        return max([*sums, *(each.mass for each in self.bounds.values()), 1.0])

    def _report(self, name: str) -> dict[str, Any]:
        """What was learned about a column, and the shares of the records outside."""
        if name in self.bounds:
            found = self.bounds[name]
            words = [f"{found.low:g} to {found.high:g}"]
            words += ["log1p"] * found.log + ["missing values"] * found.missing
            shares = {"below": found.below, "above": found.above, "noise": found.noise}
            shares = {key: _share(value, found.mass) for key, value in shares.items()}
            return {"name": name, "learned": ", ".join(words), **shares}
        shown = self.categories.get(name)
        if not shown:
            return {"name": name, "learned": "nothing"}
        words = [f"{len(shown)} {'category' if len(shown) == 1 else 'categories'}"]
        records = self._records()
        unknown = _share(records - sum(shown.values()), records)
        noise = _share(self.sigma * math.sqrt(len(shown)), records)
        return {"name": name, "learned": words[0], "unknown": unknown, "noise": noise}


def _share(count: float, records: float) -> float:
    return min(max(count / records, 0.0), 1.0)


def public_facts(kinds: Kinds, terms: Terms, threshold: int | None) -> dict[str, Any]:
    """What was treated as public, and settings fixed before anything was counted."""
    facts: dict[str, Any] = {
        "kinds": kinds.words(),
        "magnitudes": f"powers of two from 2^{LEAST_EXPONENT} to 2^{LARGEST_EXPONENT}",
        "share_outside": OUTSIDE,
    }
    if kinds.label is not None:
        facts["label"] = kinds.label
    if threshold is not None:
        facts |= {"slack": terms.slack, "threshold": threshold}
    return facts


def learned_statement(
    terms: Terms, release: Releaser, facts: Mapping[str, Any], threshold: int | None
) -> PrivacyStatement:
    """The guarantee, from the record of releases."""
    mechanism = (
        f"Gaussian noise on counts of signs and magnitudes, then in {Grid.n_lines} bins between bounds"
    )
    notes = ["The names of the columns, and which of them are numeric, are taken from the table as public."]
    if threshold is not None:
        mechanism += f"; a categorical value is published if its noisy count is at least {threshold}"
        notes.append("The running time reveals how many distinct values there are.")
    last = release.releases[-1]
    return PrivacyStatement(
        epsilon=terms.epsilon,
        delta=terms.delta,
        neighbors=terms.neighbors,
        mechanism=mechanism,
        accountant="gdp",
        sensitivity=last.sensitivity,
        noise_scale=last.scale,
        steps=sum(each.count for each in release.releases),
        random=release.random,
        public=facts,
        mu=terms.mu,
        ledger=charge_note(terms.ledger, terms.epsilon, terms.delta),
        notes=tuple(notes),
    )
