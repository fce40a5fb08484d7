"""What a command says when it cannot do what it was asked to."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator

import typer

from dperm.accounting import PrivacyLedger
from dperm.errors import BudgetExceededError, LedgerError


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """Print what went wrong with a ledger, a file or an argument, and exit with 1; warnings in one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except (LedgerError, BudgetExceededError, ValueError, TypeError, OSError, ImportError) as error:
            typer.echo(f"dperm: {error}", err=True)
            raise typer.Exit(1) from None
        finally:
            for warning in caught:
                typer.echo(f"dperm: warning: {warning.message}", err=True)


@contextlib.contextmanager
def interrupted_after_charge(ledger: PrivacyLedger | None, result: str = "model") -> Iterator[None]:
    """Say what was charged for nothing if Ctrl-C comes, and exit with 130."""
    before = 0 if ledger is None else len(ledger.history())
    try:
        yield
    except KeyboardInterrupt:
        charges = [] if ledger is None else ledger.history()[before:]
        mine = [each for each in charges if each.process == os.getpid()]
        for charge in mine:
            typer.echo(
                f"dperm: interrupted after epsilon={charge.epsilon:g}, delta={charge.delta:g} was charged "
                f"for {charge.description!r}; it stays charged, and no {result} was written.",
                err=True,
            )
        if not mine:
            typer.echo(f"dperm: interrupted; nothing was charged, and no {result} was written.", err=True)
        raise typer.Exit(130) from None
