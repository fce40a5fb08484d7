"""A learned schema: the privacy terms of learning it, its columns, and what they cut off."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dperm._document import Document, Table
from dperm.accounting import PrivacyLedger, gdp_epsilon
from dperm.accounting._checks import check_delta, check_positive_epsilon
from dperm.accounting.budget import Budget
from dperm.accounting.ledger.cost import slack_as_float
from dperm.accounting.ledger.ledger import check_ledger
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units, budget_units, gaussian_noise_multiplier, units_as_float
from dperm.data.schema.columns import Categorical, Numeric, SchemaColumn
from dperm.data.schema.schema import Schema
from dperm.data.schema.table_columns import Category
from dperm.errors import DataError, PrivacyWarning, warn_caller
from dperm.mechanisms.release import Releaser
from dperm.schema_learning.bounds import (
    LARGEST_EXPONENT,
    LEAST_EXPONENT,
    OUTSIDE,
    Grid,
    LearnedBounds,
    NoisySum,
)
from dperm.schema_learning.sources import Kinds
from dperm.statement.facts import charge_note
from dperm.statement.privacy_statement import PrivacyStatement

_SHARE_OF_LEDGER = Fraction(1, 20)  # of mu^2, by default
_SHARE_OF_SLACK = 0.125  # of what the ledger has left, by default; so it never runs out
_SLACK = 0.1  # share of delta for values that only one record has
_MIN_EPSILON = 1e-9  # in statements


@dataclass(frozen=True)
class Terms:
    """The guarantee to give, checked."""

    epsilon: float  # of all releases together
    delta: float
    units: Units  # their mu^2
    slack: float  # the part of delta for values that only one record has
    neighbors: Neighbours
    ledger: PrivacyLedger | None

    @property
    def mu(self) -> float:
        """Gaussian differential privacy, up to the slack."""
        return math.sqrt(units_as_float(self.units))

    def budget(self) -> Budget:
        """The budget of all releases."""
        return Budget(self.units, slack=self.slack)

    def multipliers(self, fractions: Sequence[Fraction]) -> list[float]:
        """Noise multipliers of releases, each of which takes a fraction of the mu^2 that is left."""
        budget, found = self.budget(), list[float]()
        for fraction in fractions:
            one = budget.share(1, fraction)
            budget.spend(0 if one == math.inf else one)
            found.append(gaussian_noise_multiplier(one, "gdp"))
        return found


def terms_of(
    epsilon: float | None,
    delta: float | None,
    *,
    categories: bool,
    neighbors: str | None,
    ledger: PrivacyLedger | None,
) -> Terms:
    """Checked terms; those not given are a share of what the ledger has.

    Raises ValueError or TypeError for terms out of range, or if there is no ledger to take a share of.
    """
    if ledger is not None:
        check_ledger(ledger)
    elif epsilon is None or delta is None:
        raise ValueError("give epsilon and delta, or a ledger to take a share of")
    relation = relation_of(neighbors, ledger)
    delta, slack = _delta_and_slack(delta, categories, ledger)
    remaining_delta = math.nextafter(delta - slack, 0.0)
    if epsilon is not None:
        epsilon = check_positive_epsilon(epsilon)
        return Terms(epsilon, delta, budget_units(epsilon, remaining_delta), slack, relation, ledger)
    assert ledger is not None
    whole = ledger.caps.units
    if whole == math.inf:
        return Terms(math.inf, delta, math.inf, slack, relation, ledger)
    squares = 2 if ledger.accountant is Accountant.ZCDP else 1  # mu^2 = 2 rho
    units = math.floor(_SHARE_OF_LEDGER * squares * Fraction(whole))
    epsilon = max(gdp_epsilon(math.sqrt(units_as_float(units)), remaining_delta), _MIN_EPSILON)
    return Terms(epsilon, delta, units, slack, relation, ledger)


def _delta_and_slack(
    delta: float | None, categories: bool, ledger: PrivacyLedger | None
) -> tuple[float, float]:
    if delta is not None:
        delta = check_delta(delta)
        return delta, _SLACK * delta if categories else 0.0
    assert ledger is not None
    if not categories:
        return ledger.delta, 0.0
    room = ledger.room.slack
    if room == 0:
        raise ValueError(
            "the ledger has no slack left, which publishing unlisted values requires: use "
            "Ledger(..., slack=...), or declare the columns yourself"
        )
    slack = _SLACK * ledger.delta if room == math.inf else _SHARE_OF_SLACK * slack_as_float(room)
    return slack / _SLACK, slack


_SHARES = ("below", "above", "unknown")
_HEAD = ("column", "learned", *_SHARES)
_MANY = 0.05  # so many records without a category are a reference themselves


class LearnedReport:
    """What was learned about each column, and the noisy shares of the records that lie outside.

    Parameters
    ----------
    columns : sequence of mapping
        With ``name``, ``learned`` (as text), and the shares ``below``, ``above`` or ``unknown`` (including
        missing values), each a list of the share and the ends of its 95 % interval. ``reference`` is the most
        frequent category, if few records have none: `summary` compares the others with it.

    Attributes
    ----------
    columns : tuple of dict
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.columns = tuple(map(dict, columns))

    def __str__(self) -> str:
        """Return a table as text."""
        rows = [_HEAD, *map(_row, self.columns)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table as HTML."""
        return Document("", [Table(_HEAD, [_row(each) for each in self.columns])]).to_fragment()


def _row(column: Mapping[str, Any]) -> tuple[str, ...]:
    return (column["name"], column["learned"], *(_percent(column.get(key, ())) for key in _SHARES))


def _percent(share: Sequence[float]) -> str:
    return "{:.2g} % ({:.2g} to {:.2g})".format(*(100.0 * each for each in share)) if share else ""


@dataclass(frozen=True)
class Learned:
    """What was released about the columns."""

    kinds: Kinds
    bounds: Mapping[str, LearnedBounds]  # of the numeric columns with significant counts
    #: Of the categorical columns: published values and their noisy counts.
    categories: Mapping[str, Mapping[Category, int]]
    sigma: float  # standard deviation of the noise of such a count
    curves: Mapping[str, Numeric] = field(default_factory=dict)  # numeric columns with functions

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
        facts["privacy"] = stated
        return Schema._learned_as(facts, list(described.values()), "", ignored, label or "")

    def _column(self, name: str) -> SchemaColumn | None:
        if name in self.bounds:
            return self.curves.get(name) or self.bounds[name].column(name)
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

    def records(self) -> NoisySum:
        """Noisy number of records, estimated from the column with the most."""
        sums = [self._shown(each) for each in self.categories.values()]
        return max([*sums, *(each.mass for each in self.bounds.values())], default=NoisySum(0.0, 0.0))

    def _shown(self, counts: Mapping[Category, int]) -> NoisySum:
        return NoisySum(float(sum(counts.values())), self.sigma * math.sqrt(len(counts)))

    def _unknown(self, name: str) -> list[float]:
        """The share of the records that have none of the categories."""
        records, shown = self.records(), self._shown(self.categories[name])
        noise = math.hypot(records.sigma, shown.sigma)
        return NoisySum(records.value - shown.value, noise).share(max(records.value, 1.0))

    def _report(self, name: str) -> dict[str, Any]:
        """What was learned about a column, and the shares of the records outside."""
        if name in self.bounds:
            found = self.bounds[name]
            words = [f"{found.low:g} to {found.high:g}"]
            words += ["log1p"] * found.log + ["missing values"] * found.missing
            shares = {
                key: getattr(found, key).share(max(found.mass.value, 1.0)) for key in ("below", "above")
            }
            return {"name": name, "learned": ", ".join(words), **shares}
        shown = self.categories.get(name)
        if not shown:
            return {"name": name, "learned": "nothing"}
        learned = f"{len(shown)} {'category' if len(shown) == 1 else 'categories'}"
        unknown = self._unknown(name)
        reference = {"reference": max(shown, key=lambda level: shown[level])} if unknown[0] < _MANY else {}
        return {"name": name, "learned": learned, "unknown": unknown, **reference}


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
    if "functions" in facts:
        mechanism += ", then in cells, from which the bins of functions follow"
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
