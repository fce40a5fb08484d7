"""Global settings of the process."""

from __future__ import annotations

import os

_VARIABLE = "DPERM_REQUIRE_LEDGER"
_settings: dict[str, bool | None] = {"require_ledger": None}


def config(*, require_ledger: bool | None = None) -> dict[str, bool]:
    """Change global settings, and return all of them.

    Parameters
    ----------
    require_ledger : bool, optional
        Whether a fit without a ledger is an error, even a nonprivate one. Until it is set, the environment
        variable ``DPERM_REQUIRE_LEDGER`` decides (1 means yes).

    Returns
    -------
    dict
        The current settings.

    Examples
    --------
    >>> import dperm
    >>> dperm.config(require_ledger=True)
    {'require_ledger': True}
    >>> dperm.config(require_ledger=False)
    {'require_ledger': False}
    """
    if require_ledger is not None:
        if not isinstance(require_ledger, bool):
            raise TypeError(f"require_ledger must be True, False or None, got {require_ledger!r}")
        _settings["require_ledger"] = require_ledger
    return {"require_ledger": ledger_is_required()}


def ledger_is_required() -> bool:
    """Whether every fit must charge a ledger.

    Raises
    ------
    ValueError
        If the environment variable is neither 0 nor 1.
    """
    chosen = _settings["require_ledger"]
    if chosen is not None:
        return chosen
    value = os.environ.get(_VARIABLE, "0")
    if value not in ("", "0", "1"):
        raise ValueError(f"the environment variable {_VARIABLE} must be 0 or 1, got {value!r}")
    return value == "1"


def check_ledger_is_given(ledger: object) -> None:
    """Raise ValueError for a fit without a ledger where one is required."""
    if ledger is None and ledger_is_required():
        raise ValueError(
            "a ledger is required here (dperm.config or DPERM_REQUIRE_LEDGER): pass ledger=open_ledger(...)"
        )
