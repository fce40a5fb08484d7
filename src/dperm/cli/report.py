"""``dperm report``: report the guarantee and the quality of a model in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dperm.accounting import open_ledger
from dperm.cli.budget import File, Force
from dperm.cli.outputs import check_writable
from dperm.cli.predict import ModelFile
from dperm.cli.screen import Screen, command
from dperm.data.files.whole_files import write_whole


@command
def report(
    screen: Screen,
    model: ModelFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help=".html, .md or .json file; by default the screen.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="As Markdown, the default on the screen.")] = False,
    evaluation: Annotated[Path | None, typer.Option(help="A saved evaluation of the model.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Name of the budget that the model was charged to.")
    ] = None,
    file: File = Path("dperm-budget.db"),
    force: Force = False,
) -> None:
    """Report the guarantee of a model, how it was made, and how good it is."""
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
