"""What a command checks of its output files and says about errors, for people."""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from dperm.data.files.whole_files import beside, check_replaceable
from dperm.errors import BudgetExceededError, ExactScoreWarning, LedgerError


def check_writable(path: Path, *, force: bool, size: int, reads: Iterable[Path | None] = ()) -> None:
    """Raise unless a file of about that many bytes can be written at `path`.

    Raises
    ------
    ValueError
        If the file exists and `force` is false, or if it is one that the command reads, a device, a pipe or
        a ledger.
    OSError
        If the folder does not exist or is not writable, or the disk is full.
    """
    check_replaceable(path)
    if path.exists() and any(each is not None and each.exists() and path.samefile(each) for each in reads):
        raise ValueError(f"{path} is read by this command: choose another name for what it writes")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: choose another name, or --force to write over it")
    trial = beside(path)
    allocate(trial, size)
    trial.unlink()


def allocate(path: Path, size: int) -> None:
    """Create a file that takes so many bytes of its disk; OSError, and no file, if they are not there."""
    with path.open("xb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # others: not on this file system
                path.unlink()
                raise OSError(error.errno, os.strerror(error.errno), str(path.parent.absolute())) from None


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
