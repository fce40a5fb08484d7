"""Bounds and categories from noisy counts, in two passes over the records and one charge."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting import PrivacyLedger
from dperm.accounting.selection import publication_threshold
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
from dperm.schema_learning.result import Learned, learned_statement, public_facts, terms_of
from dperm.schema_learning.sources import Counting, Kinds, Source, kinds_of, source_of

_FIRST = Fraction(3, 4)  # of mu^2, for magnitudes and categories; the rest is for the grids


def learn_schema(
    frame: Any,
    epsilon: float | None,
    delta: float | None,
    *,
    kinds: Mapping[str, str] | None,
    label: str | None,
    ledger: PrivacyLedger | None,
    neighbors: str | None,
    random_state: RandomState,
) -> Schema:
    """See `dperm.Schema.learn`."""
    source = source_of(frame, kinds)
    known = kinds_of(source.types(), kinds, source.label if label is None else label)
    terms = terms_of(epsilon, delta, categories=bool(known.categorical), neighbors=neighbors, ledger=ledger)
    first, second = terms.multipliers(_FIRST if known.numeric else Fraction(1))
    private = _magnitudes(source, known)
    sensitivity = private.sensitivity(terms.neighbors)
    gaussian_scale(max(first, second) * sensitivity, private.grid)  # raises if the noise cannot be drawn
    sigma = first * sensitivity
    n_columns = len(known.categorical)
    threshold = publication_threshold(sigma, terms.slack, n_columns) if n_columns else None
    facts = public_facts(known, terms, threshold)
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
    bounds |= _refined(release, second, source, known, bounds)
    categories = dict(zip(known.categorical, values, strict=True))
    statement = learned_statement(terms, release, facts, threshold)
    return Learned(known, bounds, categories, sigma).schema(statement)


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
