"""What a command checks of its output files and says about errors, for people."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from dperm.accounting import PrivacyLedger
from dperm.data.files.whole_files import beside, check_replaceable
from dperm.errors import BudgetExceededError, ExactScoreWarning, LedgerError


def check_writable(path: Path, *, force: bool, size: int, reads: Iterable[Path | None] = ()) -> None:
    """Raise unless a file of about that many bytes can be written at `path`.

    Raises
    ------
    ValueError
        If the file exists and `force` is false, if it is one that the command reads, a device, a pipe or a
        ledger, or if the disk is full.
    OSError
        If the folder does not exist or is not writable.
    """
    check_replaceable(path)
    if path.exists() and any(each is not None and each.exists() and path.samefile(each) for each in reads):
        raise ValueError(f"{path} is read by this command: choose another name for what it writes")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: choose another name, or --force to write over it")
    trial = beside(path)
    trial.write_bytes(b"")
    trial.unlink()
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise ValueError(f"no space is left on the disk of {path}")


_LONGEST = 1000  # characters of a message, which may quote a cell
WRONG_INPUT, REFUSED, INTERRUPTED = 1, 3, 130

_WRONG = (
    LedgerError,
    ValueError,
    TypeError,
    OSError,
    ImportError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """Print errors as one line and exit with the corresponding code; print warnings as one line, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ExactScoreWarning)  # commands say so beside the score
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # selected by name
        warnings.showwarning = _print_warning
        try:
            yield
        except BrokenPipeError:  # the reader of the output has closed it
            raise
        except BudgetExceededError as error:
            raise _exit(REFUSED, str(error)) from None
        except _WRONG as error:
            raise _exit(WRONG_INPUT, _sentence(error)) from None
        except KeyboardInterrupt:
            raise _exit(INTERRUPTED, "interrupted; nothing was charged.") from None


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"dperm: warning: {message}", err=True)


def _exit(code: int, message: str) -> typer.Exit:
    words = " ".join(map(str.strip, message.splitlines()))  # spaces in a quoted cell stay
    typer.echo(f"dperm: {words if len(words) <= _LONGEST else words[:_LONGEST] + '...'}", err=True)
    return typer.Exit(code)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {str(error.filename)!r}"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def interrupted_after_charge(ledger: PrivacyLedger | None, result: str = "model") -> Iterator[None]:
    """On Ctrl-C, say what was charged although there is no result, and exit with 130."""
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
        raise typer.Exit(INTERRUPTED) from None
