"""``dperm tune``: choose the best of several settings and fit a model, within one budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dperm.accounting import open_ledger
from dperm.cli import fit as options
from dperm.cli.budget import File, Force
from dperm.cli.inputs import opened
from dperm.cli.messages import interrupted_after_charge
from dperm.cli.outputs import check_writable
from dperm.cli.screen import Screen, command


@command
def tune(
    screen: Screen,
    data: options.Data,
    schema: options.SchemaFile,
    label: options.Label,
    epsilon: options.Epsilon,
    delta: options.Delta,
    grid: Annotated[
        list[str],
        typer.Option(help="key=value,value,...: candidates of a setting such as l2; may be repeated."),
    ],
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit the winner to all records, with half of the budget.")
    ] = False,
    estimator: options.Estimator = "logistic",
    positive: options.Positive = None,
    classes: options.Classes = None,
    target_bound: options.TargetBound = None,
    class_weight: options.ClassWeight = None,
    weight_column: options.WeightColumn = None,
    weight_bound: options.WeightBound = None,
    solver: options.Solver = "auto",
    settings: options.Settings = None,
    neighbors: options.Neighbors = None,
    n_public: options.NPublic = None,
    model: options.Model = None,
    force: Force = False,
    separator: options.Separator = None,
    header: options.Header = None,
    decimal: options.Decimal = ".",
    ledger: options.LedgerName = None,
    file: File = Path("dperm-budget.db"),
) -> None:
    """Choose the best of several settings and fit a model with them, in one charge."""
    from dperm.cli.estimators import grid_of, make
    from dperm.cli.models import check_terms, target_of, write
    from dperm.cli.targets import load_described
    from dperm.cli.weights import load_weights, weight_arguments, without_weights
    from dperm.search import PrivateSearch

    description, target = target_of(screen, schema, label, estimator, positive, classes, target_bound)
    description = without_weights(description, weight_column, weight_bound, target)
    account = None if ledger is None else open_ledger(file, ledger)
    candidates = grid_of(estimator, grid)
    terms = target.arguments | weight_arguments(target, class_weight, weight_bound) | {"n_public": n_public}
    base = make(estimator, solver, settings or [], schema=description, **terms)
    search = PrivateSearch(base, candidates, epsilon, delta, refit=refit, ledger=account, neighbors=neighbors)
    if model is not None:
        check_writable(model, force=force, size=4096 + 64 * description.n_columns)
    with interrupted_after_charge(account):
        with opened(data, separator, header, decimal) as inputs:
            X, y = load_described(inputs, target, screen, description)
            weights = None if weight_column is None else load_weights(inputs, weight_column)
        n = len(y) if n_public is None else n_public
        check_terms(screen, epsilon, delta, n)
        search.fit(X, y, sample_weight=weights)
        if model is not None:
            write(search.best_estimator_, target, model)
    screen.note(f"{n:,} records" + ("" if model is None else f"; model written to {model}"))
    best = ", ".join(f"{key}={value}" for key, value in search.best_params_.items())
    count = len(search.cv_results_["params"])
    facts = {"best": search.best_params_, "candidates": count, "privacy": search.privacy_.to_dict()}
    screen.show(facts, f"Best of {count}: {best}\n\n{search.privacy_}")
