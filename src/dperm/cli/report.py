"""``dperm report``: what a model guarantees and how good it is, as one file for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dperm.accounting import open_ledger
from dperm.cli.budget import File
from dperm.cli.outputs import check_writable
from dperm.cli.predict import ModelFile
from dperm.cli.screen import Screen, command
from dperm.data.files.whole_files import write_whole


@command
def report(
    screen: Screen,
    model: ModelFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file .html, .md or .json; else to the screen.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="To the screen as Markdown, the default.")] = False,
    evaluation: Annotated[
        Path | None, typer.Option(help="An evaluation of the model that was saved.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Name of the budget that the model was charged to.")
    ] = None,
    file: File = Path("dperm-budget.db"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write up what a model guarantees, what it was made of, and how good it is."""
    import dperm
    from dperm.metrics import Evaluation

    if markdown and screen.as_json:
        raise ValueError("give --md or --json, not both")
    account = None if ledger is None else open_ledger(file, ledger)
    scores = None if evaluation is None else Evaluation.load(evaluation)
    written = dperm.report(dperm.load(model), ledger=account, evaluation=scores)
    kind = ".json" if screen.as_json else ".md" if markdown or out is None else out.suffix
    text = written.written_as(kind)
    if out is None:
        typer.echo(text, nl=False)
        return
    check_writable(out, force=force, size=len(text))
    write_whole(out, text)
    screen.note(f"report written to {out}")
