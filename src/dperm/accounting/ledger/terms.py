"""Terms of a ledger, fixed when it is created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dperm.accounting._checks import check_delta, check_positive_epsilon, check_real, check_text
from dperm.accounting.ledger.cost import Cost, caps_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Accountant

# Share of delta that is reserved for fits that are Gaussian differentially private up to a slack.
_DEFAULT_SLACK = 0.1


@dataclass(frozen=True)
class LedgerTerms:
    """Everything about a ledger that never changes, checked; `Ledger` documents the fields.

    Raises
    ------
    ValueError, TypeError
        For a term out of range, or a budget below one unit.
    """

    epsilon: float
    delta: float
    accountant: Accountant = Accountant.GDP
    name: str = ""
    neighbors: Neighbours = Neighbours.ADD_OR_REMOVE
    slack: float = None  # type: ignore[assignment]  # a tenth of delta
    pure: float = 0.0
    ceiling: float = None  # type: ignore[assignment]  # epsilon
    allow_seeded: bool = False

    def __post_init__(self) -> None:
        epsilon, delta = check_positive_epsilon(self.epsilon), check_delta(self.delta)
        slack = _DEFAULT_SLACK * delta if self.slack is None else self.slack
        ceiling = epsilon if self.ceiling is None else check_positive_epsilon(self.ceiling, "ceiling")
        if ceiling < epsilon:
            raise ValueError(f"ceiling must be at least epsilon = {epsilon:g}, got {ceiling!r}.")
        if not isinstance(self.allow_seeded, bool):
            raise TypeError(f"allow_seeded must be True or False, got {self.allow_seeded!r}.")
        checked = {
            "epsilon": epsilon,
            "delta": delta,
            "accountant": Accountant.parse(self.accountant),
            "name": check_text(self.name, "name"),
            "neighbors": Neighbours.parse(self.neighbors),
            "slack": check_real(slack, "slack", "a number from 0 to below delta", lambda s: 0.0 <= s < delta),
            "pure": check_real(
                self.pure, "pure", "a number from 0 to below epsilon", lambda p: 0.0 <= p < epsilon
            ),
            "ceiling": ceiling,
        }
        for term, value in checked.items():
            object.__setattr__(self, term, value)
        self.caps(epsilon)  # raises if the budget is too small

    def caps(self, epsilon: float) -> Cost:
        """Caps on the costs for a total of `epsilon`."""
        return caps_of(epsilon, self.delta, self.accountant, self.slack, self.pure)

    def differences(self, **given: Any) -> dict[str, Any]:
        """The given terms that differ from these; None matches any value."""
        return {key: value for key, value in given.items() if value not in (None, getattr(self, key))}


def relation_of(neighbors: str | None, ledger: HasTerms | None) -> Neighbours:
    """The neighbouring relation of a fit: `neighbors` if given, else its ledger's, else add_or_remove."""
    if neighbors is not None:
        return Neighbours.parse(neighbors)
    return Neighbours.ADD_OR_REMOVE if ledger is None else ledger.neighbors


class HasTerms:
    """Base class with the terms of a ledger as properties.

    Parameters
    ----------
    terms : LedgerTerms
        What was fixed at creation.
    """

    def __init__(self, terms: LedgerTerms) -> None:
        self._terms = terms

    @property
    def delta(self) -> float:
        """The budget's delta."""
        return self._terms.delta

    @property
    def accountant(self) -> Accountant:
        """What is added up under composition."""
        return self._terms.accountant

    @property
    def neighbors(self) -> Neighbours:
        """The neighbouring relation of the guarantee."""
        return self._terms.neighbors

    @property
    def ceiling(self) -> float:
        """Largest epsilon that the total can ever be extended to: the guarantee under adaptive use."""
        return self._terms.ceiling

    @property
    def allow_seeded(self) -> bool:
        """Whether fits with a random_state are accepted, which is for tests."""
        return self._terms.allow_seeded

    @property
    def name(self) -> str:
        """Name of the data set or the budget; may be empty."""
        return self._terms.name
