"""Bounds and categories from noisy counts, in two passes over the records and one charge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting import PrivacyLedger, gdp_mu
from dperm.accounting.selection import publication_threshold
from dperm.data.schema.columns import Numeric
from dperm.data.schema.schema import Schema
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.open_counts import release_open_counts
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.private_values.open_counts import OpenCounts
from dperm.schema_learning.bounds import (
    Histogram,
    LearnedBounds,
    Magnitudes,
    NoisyCounts,
    refined,
    rough_bounds,
)
from dperm.schema_learning.functions import (
    MOST_FUNCTIONS,
    cells_for_functions,
    counts_of_cells,
    functions_of_budget,
    released_functions,
)
from dperm.schema_learning.result import Learned, learned_statement, public_facts, terms_of
from dperm.schema_learning.sources import Counting, Kinds, Source, kinds_of, source_of

#: Fractions of the mu^2 that is left: for magnitudes and categories, for grids, for bins of functions.
_FRACTIONS = Fraction(3, 4), Fraction(1)
_FRACTIONS_WITH_FUNCTIONS = Fraction(1, 2), Fraction(1, 2), Fraction(1)


def learn_schema(
    frame: Any,
    target: tuple[float | None, float | None],
    *,
    kinds: Mapping[str, str] | None,
    label: str | None,
    ledger: PrivacyLedger | None,
    neighbors: str | None,
    functions: int | str,
    random_state: RandomState,
) -> Schema:
    """See `dperm.Schema.learn`; `target` are epsilon and delta."""
    source = source_of(frame, kinds)
    known = kinds_of(source.types(), kinds, source.label if label is None else label)
    terms = terms_of(*target, categories=bool(known.categorical), neighbors=neighbors, ledger=ledger)
    _check_functions(functions, ledger)
    fractions = _FRACTIONS_WITH_FUNCTIONS if functions else _FRACTIONS
    multipliers = terms.multipliers(fractions if known.numeric else fractions[-1:])
    first = multipliers[0]
    private = _magnitudes(source, known)
    sensitivity = private.sensitivity(terms.neighbors)
    gaussian_scale(max(multipliers) * sensitivity, private.grid)  # raises if the noise cannot be drawn
    sigma = first * sensitivity
    n_columns = len(known.categorical)
    threshold = publication_threshold(sigma, terms.slack, n_columns) if n_columns else None
    facts = public_facts(known, terms, threshold) | ({"functions": functions} if functions else {})
    release = Releaser(
        terms.epsilon,
        terms.delta,
        terms.budget(),
        neighbors=terms.neighbors,
        ledger=ledger,
        random_state=random_state,
        description="Schema.learn",
        statement=facts,
    )
    bins, values = release_open_counts(release, private, first, terms.slack)
    rough = {name: rough_bounds(each) for name, each in _histograms(known.numeric, bins, sigma).items()}
    bounds = {name: found for name, found in rough.items() if found is not None}
    if known.numeric:
        bounds |= _refined(release, multipliers[1], source, known, bounds)
    learned = Learned(known, bounds, dict(zip(known.categorical, values, strict=True)), sigma)
    if functions and known.numeric:
        curves = _with_functions(release, multipliers[2], source, learned, functions, ledger)
        learned = replace(learned, curves=curves)
    return learned.schema(learned_statement(terms, release, facts, threshold))


def _check_functions(functions: int | str, ledger: PrivacyLedger | None) -> None:
    """Raise ValueError for a number of functions that cannot be had."""
    if functions == "auto" and ledger is None:
        raise ValueError("functions='auto' follows from what a ledger has left: give a ledger, or a number")
    if functions != "auto" and (type(functions) is not int or not 0 <= functions <= MOST_FUNCTIONS):
        raise ValueError(f"functions must be 'auto' or from 0 to {MOST_FUNCTIONS}, got {functions!r}")


def _with_functions(
    release: Releaser,
    multiplier: float,
    source: Source,
    learned: Learned,
    functions: int | str,
    ledger: PrivacyLedger | None,
) -> dict[str, Numeric]:
    """The numeric columns with functions: as many as fits with what the ledger has left can learn."""
    names = [name for name in learned.kinds.numeric if name in learned.bounds and name != learned.kinds.label]
    cells = cells_for_functions([learned.bounds[name].column(name) for name in names])
    n = max(learned.records().value, 1.0)
    if functions == "auto" and ledger is not None:
        mu = math.inf if ledger.epsilon == math.inf else gdp_mu(ledger.remaining, ledger.delta)
        weights = 1 + len(names) + sum(map(len, learned.categories.values()))
        functions = functions_of_budget(n, mu / release.neighbors.sum_factor, weights, len(cells))
    if not cells or not functions:
        return {}
    counted = counts_of_cells(source, cells, learned.kinds.names)
    return released_functions(release, multiplier, counted, cells, n, int(functions))


def _magnitudes(source: Source, known: Kinds) -> OpenCounts:
    """Counts of numbers by sign and magnitude, and of categories by value, in one pass."""
    histograms: dict[str, Histogram] = dict.fromkeys(known.numeric, Magnitudes())
    tally = source.total(Counting(histograms, known.categorical, known.names))
    return OpenCounts(tally.bins, tally.values, columns=len(known.counted))


def _refined(
    release: Releaser, multiplier: float, source: Source, known: Kinds, rough: Mapping[str, LearnedBounds]
) -> dict[str, LearnedBounds]:
    """Bounds at edges of a grid, for the columns that benefit from one."""
    grids = {name: grid for name, each in rough.items() if (grid := each.grid) is not None}
    if not grids:
        return {}
    tally = source.total(Counting(grids, {}, known.names))
    private = OpenCounts(tally.bins, (), columns=len(grids))
    noisy, _ = release_open_counts(release, private, multiplier, 0.0)
    histograms = _histograms(grids, noisy, release.releases[-1].scale)
    return {name: refined(rough[name], grids[name], each) for name, each in histograms.items()}


def _histograms(names: Any, bins: NDArray[np.int64], sigma: float) -> dict[str, NoisyCounts]:
    """A released vector, split into the histograms of the columns."""
    parts = bins.reshape(len(names), -1) if len(names) else bins
    return {
        name: NoisyCounts(part.astype(np.float64), sigma, bins.size)
        for name, part in zip(names, parts, strict=False)
    }
