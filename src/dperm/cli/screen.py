"""Common options of all commands, their output, and their exit codes."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dperm._files import read_limited
from dperm._progress import log
from dperm.cli.messages import errors_for_people

EXIT_CODES = (
    "Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 refused by a privacy budget, 130 interrupted."
)


@dataclass(frozen=True)
class Screen:
    """Output of a command: results go to standard output, everything else to standard error.

    Attributes
    ----------
    quiet : bool
        Print only results, warnings and errors.
    as_json : bool
        Print results as JSON.
    """

    quiet: bool = False
    as_json: bool = False

    def show(self, facts: Any, *parts: Any) -> None:
        """Print a result: `facts` as JSON, or else `parts`, which are strings or renderables of rich."""
        if self.as_json:
            typer.echo(json.dumps(facts, indent=1))
            return
        for part in parts:
            if isinstance(part, str):
                typer.echo(part)
            else:
                Console().print(part)

    def note(self, text: str) -> None:
        """Print a message unless `quiet`."""
        if not self.quiet:
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning."""
        typer.echo(f"dperm: warning: {text}", err=True)

    @contextmanager
    def reading(self, title: str, n_bytes: int) -> Iterator[Callable[[float], None]]:
        """A progress bar for reading a file; yields a function to call with the fraction read."""
        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        hidden = self.quiet or not sys.stderr.isatty()
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
            task = bar.add_task(title, total=n_bytes)
            yield lambda share: bar.update(task, completed=min(share, 1.0) * n_bytes)


def _take_defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Take the entries of a configuration file as defaults of the command's options."""
    if path is not None:
        with errors_for_people():
            context.default_map = _defaults(context, tomllib.loads(read_limited(path, pipes=True).decode()))
    return path


def _defaults(context: typer.Context, entries: dict[str, Any]) -> dict[str, Any]:
    known = {
        option.lstrip("-").replace("-", "_"): (str(each.name), getattr(each, "multiple", False))
        for each in context.command.params
        for option in (*each.opts, str(each.name))
    }
    found = dict[str, Any]()
    for key, value in entries.items():
        if key.replace("-", "_") not in known or key == "config":
            raise ValueError(
                f"the configuration has {key!r}, which is no option of 'dperm {context.info_name}'"
            )
        name, multiple = known[key.replace("-", "_")]
        if isinstance(value, dict):
            value = [f"{own}={_text(each)}" for own, each in value.items()]
        if isinstance(value, list) != multiple and name != "data":
            raise ValueError(f"{key} in the configuration must {'' if multiple else 'not '}be a list")
        found[name] = [_text(each) for each in value] if isinstance(value, list) else value
    return found


def _text(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)


_COMMON = {
    "config": Annotated[
        Path | None,
        typer.Option(
            "--config",
            is_eager=True,
            callback=_take_defaults,
            help="TOML file with options as keys; the command line wins.",
        ),
    ],
    "as_json": Annotated[bool, typer.Option("--json", help="Print the result as JSON.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")],
    "verbose": Annotated[
        bool, typer.Option("--verbose", "-v", help="Print each action and charge with the time.")
    ],
}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function ``(screen, options...)`` into a command with the common options and error handling."""
    signature = inspect.signature(function, eval_str=True)
    _, *own = (each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values())
    common = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None if name == "config" else False, annotation=kind
        )
        for name, kind in _COMMON.items()
    ]

    @functools.wraps(function)
    def run(config: Path | None, as_json: bool, quiet: bool, verbose: bool, **options: Any) -> None:
        with errors_for_people(), _logged(verbose):
            function(Screen(quiet, as_json), **options)

    run.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [*own, *common]}
    return run


@contextmanager
def _logged(verbose: bool) -> Iterator[None]:
    """Print the log of the library if `verbose`."""
    if not verbose:
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
