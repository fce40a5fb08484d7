"""``additive=True``: bins of functions are learned first, from a part of the budget of the fit."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.accounting import PrivacyLedger, gdp_mu
from dperm.accounting.budget import Budget
from dperm.accounting.ledger.ledger import Allotment
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant, Units, gaussian_noise_multiplier
from dperm.data.files.record_files import RecordFiles
from dperm.data.schema.schema import Schema
from dperm.data.tabular import TabularMatrix
from dperm.errors import DataError, PrivacyWarning
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import random_source
from dperm.mechanisms.release import Releaser
from dperm.objective.objective import Objective
from dperm.schema_learning.functions import (
    SHARE,
    cells_for_functions,
    counts_of_cells,
    functions_of_budget,
    released_functions,
    with_columns,
)
from dperm.schema_learning.sources import Source, source_of
from dperm.statement.facts import charge_note
from dperm.statement.privacy_statement import PrivacyStatement


def solve_additive(model: Any, X: Any, y: Any, counts: ArrayLike | None, weights: ArrayLike | None) -> None:
    """Fit a model whose numeric columns have functions, in one charge.

    What a fit of the linear model refuses is refused before the charge.
    """
    schema, private = _checked_schema(model, X), model._is_private()
    linear = model._objective(X, y, counts, weights)
    relation = Neighbours.parse(relation_of(model.neighbors, model.ledger))
    epsilon = model.epsilon if private else math.inf
    budget = Budget.from_epsilon(epsilon, model.delta)
    cells = cells_for_functions(schema.columns)
    mu = gdp_mu(epsilon, model.delta) / relation.sum_factor if private else math.inf
    functions = functions_of_budget(linear.n_public, mu, linear.dimension, len(cells))
    if not functions:  # the linear model: there is no number, or the noise on more weights costs too much
        model._solve(linear)
        return
    share = budget.share(1, SHARE)
    multiplier = gaussian_noise_multiplier(share, budget.accountant)
    source = random_source(model.random_state)
    inner = copy.copy(model)
    inner.random_state = source.spawn(1)[0]
    if private:
        inner.ledger = _rest(budget.total_units - share, inner, linear, relation)
        inner.epsilon, inner.neighbors = inner.ledger.epsilon, str(relation)
    counted = counts_of_cells(_source(X, schema), cells, _other_columns(X, schema), _repeats(counts))
    gaussian_scale(multiplier * counted.sensitivity(relation), counted.grid)  # raises if it cannot be drawn
    facts = {"dimension": linear.dimension, "functions": functions, "functions_of": list(cells)}
    release = Releaser(
        epsilon, model.delta, budget, neighbors=relation, ledger=model.ledger, random_state=source,
        description=f"{type(model).__name__}, additive", statement=facts,
    )  # fmt: skip
    learned = released_functions(release, multiplier, counted, cells, linear.n_public, functions)
    inner.schema = with_columns(schema, learned)
    if isinstance(X, RecordFiles):
        X = replace(X, schema=inner.schema)
    with warnings.catch_warnings(action="ignore"):  # those of the linear model
        objective = inner._objective(X, y, counts, weights)
    result = inner._call(objective).run(objective)
    inner._take(replace(result, privacy=_one_statement(result.privacy, model, release, facts)))
    parameters = model.get_params(deep=False)
    for name in vars(inner).keys() - parameters.keys():
        setattr(model, name, getattr(inner, name))


def _checked_schema(model: Any, X: Any) -> Schema:
    if model.schema is None:
        raise ValueError(
            "additive=True needs the public bounds of the columns: schema=Schema([Numeric(name, low, high), "
            "...]), for an array in the order of its columns"
        )
    if isinstance(X, TabularMatrix):
        raise DataError(
            "additive=True needs the table itself, and X is encoded already: pass what was encoded"
        )
    if model.delta == 0.0 and model._is_private():
        raise ValueError("additive=True learns bins with Gaussian noise: pass delta > 0, not 0")
    schema: Schema = model.schema
    return schema


def _rest(units: Units, inner: Any, linear: Objective, relation: Neighbours) -> Allotment:
    """What is left for the fit, as a ledger; ValueError if its cost does not add up with the rest."""
    rest = Allotment(units, inner.delta, Accountant.GDP, relation, inner.ledger)
    trial = copy.copy(inner)
    trial.epsilon, trial.neighbors, trial.verbose = rest.epsilon, str(relation), 0
    options = {name: each for name, each in (inner.solver_options or {}).items() if name != "callback"}

    def priced(ledger: PrivacyLedger) -> None:
        trial.ledger, trial.solver_options = ledger, options
        trial._call(linear).run(linear)

    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # the fit itself warns
        entry = rest.cost_of(priced)
    if not entry.cost.within(rest.caps):
        raise ValueError(
            f"additive=True needs a solver whose cost is one of mu^2, such as 'whitened_gd' or 'noisy_gd': "
            f"solver={inner.solver!r} is accounted by {entry.accountant!r}"
        )
    return rest


def _source(X: Any, schema: Schema) -> Source:
    if isinstance(X, np.ndarray):
        X = dict(zip(schema.column_names, np.asarray(X).T, strict=True))
    return source_of(X, None)


def _other_columns(X: Any, schema: Schema) -> tuple[str, ...]:
    """Names that the table may have, in the order of the schema."""
    return (*schema.column_names, *schema.ignored, *([schema.label_name] if schema.label else []))


def _repeats(counts: ArrayLike | None) -> NDArray[np.int64] | None:
    return None if counts is None else np.asarray(counts).astype(np.int64)


def _one_statement(
    fitted: PrivacyStatement, model: Any, release: Releaser, facts: Mapping[str, Any]
) -> PrivacyStatement:
    """The statement of the fit, with what was learned first and the terms of both."""
    if release.budget.total_units == math.inf:
        return replace(fitted, public={**facts, **fitted.public})
    percent, rest = 100.0 * SHARE, 100.0 * (1.0 - SHARE)
    first = (
        f"Gaussian noise on counts of the numbers of {len(facts['functions_of'])} columns in public cells "
        f"({percent:g} % of the budget in mu^2), from which bins for {facts['functions']} functions of each "
        f"follow; then, with the other {rest:g} %: "
    )
    return replace(
        fitted,
        epsilon=model.epsilon,
        delta=model.delta,
        mu=gdp_mu(model.epsilon, model.delta),
        mechanism=first + fitted.mechanism,
        steps=None if fitted.steps is None else fitted.steps + 1,
        random=release.random,
        ledger=charge_note(model.ledger, model.epsilon, model.delta),
        public={**facts, **fitted.public},
    )
