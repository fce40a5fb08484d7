"""The facts of a privacy statement, checked."""

from __future__ import annotations

import functools
import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dperm.accounting._checks import ReadOnlyMapping, plain
from dperm.accounting.ledger.privacy_ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours


def charge_note(ledger: PrivacyLedger | None, epsilon: float, delta: float) -> str | None:
    """Sentence on the charge to the ledger; None without a ledger."""
    if ledger is None:
        return None
    name = f" {ledger.name!r}" if ledger.name else ""
    part = f" for the part {ledger._part!r} of the records" if ledger._part else ""
    note = f"epsilon={epsilon:g}, delta={delta:g} charged to the ledger{name}{part}"
    if ledger.ceiling > ledger.epsilon:
        note += (
            f", whose total can be extended up to epsilon={ledger.ceiling:g}: where later fits depend on "
            "results, this ceiling is what is guaranteed of all together"
        )
    if part:
        note += (
            ". Charges for the parts of a split count once, the largest of them, provided that all parts "
            "were taken from the same records with the same columns, in the same order, scale and precision"
        )
    return note


@functools.cache  # reading the metadata of the installation takes a millisecond
def _installed_version() -> str:
    try:
        return importlib.metadata.version("dperm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a statement says; :class:`dperm.PrivacyStatement` documents each."""

    epsilon: float
    delta: float
    neighbors: str
    mechanism: str
    accountant: str
    sampling: str = "none"
    sensitivity: float | None = None
    noise_scale: float | None = None
    clip: float | None = None
    row_norm: float | None = None
    steps: int | None = None
    noise: str = "exact"
    random: str = "cryptographic"
    public: Mapping[str, Any] = field(default_factory=dict)
    ledger: str | None = None
    version: str = field(default_factory=_installed_version)
    rho: float | None = None
    mu: float | None = None
    unit: str = "one record (one row of the training data)"
    non_finite: str = "raise"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.epsilon >= 0.0:
            raise ValueError(
                f"epsilon must be a number >= 0 (math.inf for no privacy), got {self.epsilon!r}."
            )
        if not 0.0 <= self.delta < 1.0:
            raise ValueError(f"delta must be in [0, 1), got {self.delta!r}.")
        _check_choice("noise", self.noise, ("exact", "float"))
        _check_choice("random", self.random, ("cryptographic", "seeded"))
        _check_choice("non_finite", self.non_finite, ("raise", "zero"))
        object.__setattr__(self, "neighbors", str(Neighbours.parse(self.neighbors)))
        object.__setattr__(self, "accountant", str(self.accountant))
        object.__setattr__(self, "public", ReadOnlyMapping(plain(self.public)))
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def private(self) -> bool:
        """Whether anything is guaranteed: not with infinite epsilon, nor if something was learned exactly."""
        return self.epsilon < math.inf and not self.learned_exactly

    @property
    def learned_exactly(self) -> str:
        """What the result rests on that was learned from the data without noise, as far as that is known."""
        return ", ".join(self.public.get("learned_exactly", ()))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")
