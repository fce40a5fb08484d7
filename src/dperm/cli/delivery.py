"""What a command that charges a ledger releases: kept beside the ledger until it is delivered."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import typer

from dperm.accounting import PrivacyLedger, SqliteLedger
from dperm.accounting.ledger.privacy_ledger import NotingLedger
from dperm.cli.messages import INTERRUPTED, allocate
from dperm.data.files.whole_files import check_replaceable, write_whole
from dperm.errors import LedgerError

_SIGNALS = [getattr(signal, each) for each in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, each)]


class Delivery:
    """A context from the reading of the data to the last output.

    Before the charge a signal ends the command. After it the first one does not: what is paid for is finished
    and written. An error after the charge says what was charged and where the result is.

    Parameters
    ----------
    ledger : PrivacyLedger or None
        One in a file; None if nothing is charged.
    result : str
        What is made: "model", "evaluation" or "schema".
    out : Path or None
        Where it is asked for; None for standard output.
    size : int
        Bytes of disk space to take for it before anything is charged.

    Raises
    ------
    ValueError, OSError
        On entry, if standard output cannot be written to, or the disk is full.
    """

    def __init__(self, ledger: PrivacyLedger | None, result: str, out: Path | None, size: int) -> None:
        self._ledger = ledger._whole if isinstance(ledger, NotingLedger) else ledger
        self._result, self._out, self._size = result, out, size
        self._kept: Path | None = None
        self._complete = self._charging = self._stopped = False
        self._code, self._before = INTERRUPTED, 0
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if isinstance(self._ledger, SqliteLedger):
            _check_output()
            self._before = len(self._ledger.history())
            self._kept = Path(f"{self._ledger.path}.{self._result}-{secrets.token_hex(4)}")
            allocate(self._unfinished, self._size)
            self._ledger._before_charge = self._begin
            if threading.current_thread() is threading.main_thread():
                self._handlers = {each: signal.signal(each, self._stop) for each in _SIGNALS}
        return self

    def write(self, text: str) -> None:
        """Write the result: beside the ledger, and where it was asked for."""
        if self._kept is not None:
            with self._unfinished.open("r+b") as file:
                file.write(text.encode())
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            self._unfinished.replace(self._kept)
            self._complete = True
        if self._out is not None:
            check_replaceable(self._out)
            try:
                os.replace(self._kept or "", self._out)
            except OSError:  # nothing is kept, or on another disk
                write_whole(self._out, text)
            self._discard()

    @property
    def _unfinished(self) -> Path:
        return Path(f"{self._kept}.new")

    def _discard(self) -> None:
        if self._kept is not None:
            self._kept.unlink(missing_ok=True)
            self._unfinished.unlink(missing_ok=True)
            self._kept = None

    def _begin(self) -> None:
        self._charging = True

    def _stop(self, number: int, _: Any) -> None:
        if self._charging and not self._stopped:
            self._stopped = True
            text = f"dperm: the {self._result} is paid for and will be finished; again to give it up\n"
            with contextlib.suppress(OSError):
                os.write(2, text.encode())  # a signal may come amid a print
            return
        self._code = 128 + number
        raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say what became of a charge; discard what was delivered."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if isinstance(self._ledger, SqliteLedger):
            self._ledger._before_charge = None
        kept = self._kept
        if error is None or not self._complete:
            self._discard()
        if error is not None:
            self._tell(kept if self._complete else None, isinstance(error, KeyboardInterrupt))
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(self._code) from None

    def _tell(self, kept: Path | None, interrupted: bool) -> None:
        """Say what was charged."""
        what = "interrupted" if interrupted else "failed"
        written = f"no {self._result} was written"
        if self._complete:
            written = f"the {self._result} is in {kept or self._out}"
        try:
            charges = [] if self._ledger is None else self._ledger.history()[self._before :]
        except LedgerError as error:
            typer.echo(f"dperm: {what}; look at the ledger for what was charged ({error})", err=True)
            return
        mine = [each for each in charges if each.process == os.getpid()]
        for charge in mine:
            typer.echo(
                f"dperm: {what} after epsilon={charge.epsilon:g}, delta={charge.delta:g} was charged "
                f"for {charge.description!r}; it stays charged, and {written}.",
                err=True,
            )
        if interrupted and not mine:
            typer.echo(f"dperm: interrupted; nothing was charged, and {written}.", err=True)


def _check_output() -> None:
    """Raise OSError or ValueError if standard output is closed, full, or a pipe that nobody reads."""
    if sys.stdout is None:
        raise ValueError("standard output is closed, and the result is printed there")
    try:
        number = sys.stdout.fileno()
    except OSError:  # not a file: output that a program collects
        return
    os.write(number, b"")
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number, 0)
        if any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0)):
            raise ValueError("nobody reads standard output, and the result is printed there")
