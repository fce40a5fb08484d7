"""Training on the command line: the commands fit and tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dperm.accounting import PrivacyLedger, open_ledger
from dperm.cli.budget import File, Force
from dperm.cli.delivery import Delivery
from dperm.cli.inputs import files_named, opened
from dperm.cli.messages import check_writable
from dperm.cli.screen import Screen, command

Data = Annotated[
    list[str],
    typer.Argument(
        help="CSV files with a header, Parquet files, folders of them, or - for standard input; compressed "
        "files (gz, bz2, xz, zst, lz4) are unpacked to the temporary folder while the command runs."
    ),
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="TOML file that describes the columns.")]
Label = Annotated[str | None, typer.Option(help="Column to predict; by default the label of the schema.")]
Separator = Annotated[
    str | None, typer.Option(help="Between cells in CSV files, or 'tab'; by default guessed from the header.")
]
Header = Annotated[
    str | None, typer.Option(help="Names of the columns, a,b,c, for CSV files without a header line.")
]
Decimal = Annotated[str, typer.Option(help="Decimal separator in CSV files: '.' or ','.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget of this command.")]
Delta = Annotated[float, typer.Option(help="Well below one over the number of records.")]
Neighbors = Annotated[str | None, typer.Option(help="add_or_remove or replace_one; by default the ledger's.")]
NPublic = Annotated[
    int | None,
    typer.Option(
        help="Publicly known number of records, rounded or exact. Without it the exact number is published."
    ),
]
LedgerName = Annotated[str | None, typer.Option("--ledger", help="Name of the data set's budget to charge.")]
Purpose = Annotated[str, typer.Option(help="What the charge is for; noted in the ledger, public.")]
By = Annotated[str, typer.Option(envvar="DPERM_BY", help="Who makes the charge; noted as well.")]
Estimator = Annotated[str, typer.Option(help="logistic, svc, huber, ridge or quantile.")]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--class",
        help="A label; repeat it for all that may occur, unless the schema describes their column.",
    ),
]
Positive = Annotated[str | None, typer.Option(help="The label to distinguish from all others.")]
TargetBound = Annotated[
    float | None,
    typer.Option(help="Public bound on the size of the numbers to predict; by default that of the schema."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="key=value: a parameter of the estimator (fit_intercept, threshold, quantile, ...) or an option "
        "of its solver (steps, clip, ...); may be repeated.",
    ),
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(
        help="LABEL=NUMBER, public, 1 for labels that are not named; may be repeated. Or 'private': from "
        "noisy label frequencies."
    ),
]
WeightColumn = Annotated[
    str | None, typer.Option(help="Column with sample weights: private, and not a feature.")
]
WeightBound = Annotated[
    float | None, typer.Option(help="Public bound at which the weights in that column are clipped.")
]
DropMissingLabels = Annotated[
    bool,
    typer.Option(
        "--drop-missing-labels",
        help="Leave out records whose label is missing. Costs no privacy: each is decided by itself.",
    ),
]
Solver = Annotated[str, typer.Option(help="An algorithm of dperm.algorithms, or auto.")]
Additive = Annotated[
    bool,
    typer.Option(
        "--additive", help="Curves in place of straight lines; their bins are learned from the budget, too."
    ),
]
L2 = Annotated[float, typer.Option(help="Ridge strength on the scale of the mean loss.")]
Model = Annotated[Path | None, typer.Option("--model", "-o", help="Where to write the model.")]


def _charged(
    ledger: str | None, file: Path, model: Path | None, label: str, purpose: str, by: str
) -> PrivacyLedger | None:
    """The ledger to charge, if one is named."""
    if ledger is not None and model is None:
        raise typer.BadParameter(
            "--ledger: the charge stays, and without --model (-o) the model would be thrown away"
        )
    return charged(ledger, file, purpose=purpose, by=by, model_file=str(model), label=label)


def charged(ledger: str | None, file: Path, **noted: str) -> PrivacyLedger | None:
    """The ledger of that name, which notes these facts with its charges; None without a name."""
    if ledger is None and noted["purpose"]:
        raise typer.BadParameter("--purpose is noted in a ledger: name it, --ledger NAME")
    return None if ledger is None else open_ledger(file, ledger).noting(**noted)


@command
def fit(
    screen: Screen,
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    label: Label = None,
    estimator: Estimator = "logistic",
    positive: Positive = None,
    classes: Classes = None,
    target_bound: TargetBound = None,
    class_weight: ClassWeight = None,
    weight_column: WeightColumn = None,
    weight_bound: WeightBound = None,
    drop_missing_labels: DropMissingLabels = False,
    solver: Solver = "auto",
    l2: L2 = 0.0,
    additive: Additive = False,
    settings: Settings = None,
    neighbors: Neighbors = None,
    n_public: NPublic = None,
    test: Annotated[
        str | None, typer.Option(help="File of other records: print the score on them, NOT private.")
    ] = None,
    model: Model = None,
    force: Force = False,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
    ledger: LedgerName = None,
    purpose: Purpose = "",
    by: By = "",
    file: File = Path("dperm-budget.db"),
) -> None:
    """Fit a linear model to a table, with a differential privacy guarantee."""
    from dperm.cli.models import check_epsilon, make, size_of_model, target_of
    from dperm.cli.targets import (
        droppable,
        load_described,
        load_weights,
        weight_arguments,
        without_weights,
    )
    from dperm.estimators.storage.saving import model_text
    from dperm.schema_learning.functions import with_most_functions

    # Everything that can fail without the fit fails before the charge.
    description, target = target_of(schema, label, estimator, positive, classes, target_bound)
    description = without_weights(description, weight_column, weight_bound, target)
    account = _charged(ledger, file, model, target.column, purpose, by)
    drop = droppable(drop_missing_labels, neighbors, account)
    terms = {
        "epsilon": epsilon,
        "delta": delta,
        "neighbors": neighbors,
        "ledger": account,
        "l2": l2,
        "additive": additive,
        "n_public": n_public,
        "verbose": not screen.quiet,
    }
    terms |= target.arguments | weight_arguments(target, class_weight, weight_bound)
    fitted = make(estimator, solver, settings or [], schema=description, **terms)
    size = size_of_model(with_most_functions(description) if additive else description, target, solver)
    if model is not None:
        reads = [schema, *files_named(data if test is None else [*data, test])]
        check_writable(model, force=force, size=size, reads=reads)
    with Delivery(account, "model", model, size) as delivery:
        with opened(data, separator, header, decimal) as inputs:
            X, y = load_described(inputs, target, screen, description, drop, raw=additive)
            weights = None if weight_column is None else load_weights(inputs, weight_column, target, drop)
        other = None
        if test is not None:
            with opened([test], separator, header, decimal) as inputs:
                other = load_described(inputs, target, screen, description, drop, raw=additive)
        n = len(y) if n_public is None else n_public
        check_epsilon(screen, epsilon)
        fitted.fit(X, y, sample_weight=weights)
        delivery.write(model_text(fitted, target.entries))
        screen.note(f"{n:,} records" + ("" if model is None else f"; model written to {model}"))
        _report(screen, fitted, model, test, None if other is None else fitted.score(*other))


def _report(screen: Screen, fitted: Any, model: Path | None, test: str | None, score: float | None) -> None:
    text = str(fitted.privacy_)
    facts: dict[str, Any] = {
        "model": None if model is None else str(model),
        "privacy": fitted.privacy_.to_dict(),
    }
    if score is not None:
        percent, name = f"{100 * score:.2f} %", "Accuracy" if hasattr(fitted, "classes_") else "R2"
        value = percent if name == "Accuracy" else f"{score:.4f}"
        text += (
            f"\n\n{name} on {test}: {value}. Computed from that file without noise: this number is NOT "
            "private towards its records."
        )
        facts["score_not_private"] = score
    screen.show(facts, text)


@command
def tune(
    screen: Screen,
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    grid: Annotated[
        list[str],
        typer.Option(help="key=value,value,...: candidates of a setting such as l2; may be repeated."),
    ],
    refit: Annotated[
        bool, typer.Option("--refit", help="Refit the winner to all records, with half of the budget.")
    ] = False,
    label: Label = None,
    estimator: Estimator = "logistic",
    positive: Positive = None,
    classes: Classes = None,
    target_bound: TargetBound = None,
    class_weight: ClassWeight = None,
    weight_column: WeightColumn = None,
    weight_bound: WeightBound = None,
    drop_missing_labels: DropMissingLabels = False,
    solver: Solver = "auto",
    settings: Settings = None,
    neighbors: Neighbors = None,
    n_public: NPublic = None,
    model: Model = None,
    force: Force = False,
    separator: Separator = None,
    header: Header = None,
    decimal: Decimal = ".",
    ledger: LedgerName = None,
    purpose: Purpose = "",
    by: By = "",
    file: File = Path("dperm-budget.db"),
) -> None:
    """Choose the best of several settings and fit a model with them, in one charge."""
    from dperm.cli.models import check_epsilon, grid_of, make, size_of_model, target_of
    from dperm.cli.targets import (
        droppable,
        load_described,
        load_weights,
        weight_arguments,
        without_weights,
    )
    from dperm.estimators.storage.saving import model_text
    from dperm.search import PrivateSearch

    description, target = target_of(schema, label, estimator, positive, classes, target_bound)
    description = without_weights(description, weight_column, weight_bound, target)
    account = _charged(ledger, file, model, target.column, purpose, by)
    drop = droppable(drop_missing_labels, neighbors, account)
    candidates = grid_of(estimator, grid)
    terms = target.arguments | weight_arguments(target, class_weight, weight_bound) | {"n_public": n_public}
    base = make(estimator, solver, settings or [], schema=description, **terms)
    search = PrivateSearch(base, candidates, epsilon, delta, refit=refit, ledger=account, neighbors=neighbors)
    size = size_of_model(description, target, solver)
    if model is not None:
        check_writable(model, force=force, size=size, reads=[schema, *files_named(data)])
    with Delivery(account, "model", model, size) as delivery:
        with opened(data, separator, header, decimal) as inputs:
            X, y = load_described(inputs, target, screen, description, drop)
            weights = None if weight_column is None else load_weights(inputs, weight_column, target, drop)
        n = len(y) if n_public is None else n_public
        check_epsilon(screen, epsilon)
        search.fit(X, y, sample_weight=weights)
        delivery.write(model_text(search.best_estimator_, target.entries))
        screen.note(f"{n:,} records" + ("" if model is None else f"; model written to {model}"))
        best = ", ".join(f"{key}={value}" for key, value in search.best_params_.items())
        count = len(search.cv_results_["params"])
        facts = {"best": search.best_params_, "candidates": count, "privacy": search.privacy_.to_dict()}
        screen.show(facts, f"Best of {count}: {best}\n\n{search.privacy_}")
