"""The guarantee of a fit and its assumptions, as text and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dperm._document import Document, Table, Text
from dperm.accounting._checks import plain
from dperm.statement import words
from dperm.statement.facts import Facts

_WIDTH = 79
_NUMBERS = ("epsilon", "delta", "sensitivity", "noise_scale", "clip", "row_norm", "rho", "mu")
_KINDS: dict[str, Any] = {
    **dict.fromkeys(_NUMBERS, int | float),
    "steps": int,
    "public": Mapping,
    "notes": list | tuple,
}


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement(Facts):
    """The guarantee of one fit and everything it depends on.

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, at least 0; infinite means that nothing is guaranteed.
    delta : float
        Failure probability of the bound, in [0, 1); 0 for a pure guarantee.
    neighbors : {"add_or_remove", "replace_one"}
        Neighbouring relation, see `dperm.accounting.neighbours.Neighbours`.
    mechanism : str
        What was run and what noise it added.
    accountant : str
        How the releases were composed: "gdp", "zcdp", "pure", "pld", "rdp" or another name.
    sampling : str, default="none"
        Sampling scheme that was used: "none" (all records at every step), "poisson",
        "without_replacement", "permutation" or a description.
    sensitivity : float, optional
        Largest change of the released quantity between neighbours, in its own unit.
    noise_scale : float, optional
        Standard deviation (Gaussian) or scale (norm-Laplace) of the noise, in the unit of `sensitivity`;
        that of the last release if it varies.
    clip : float, optional
        Bound on the norm of one record's gradient.
    row_norm : float, optional
        Bound on the norm of one row; longer rows are scaled down.
    steps : int, optional
        Number of accesses to the data.
    noise : {"exact", "float"}, default="exact"
        "exact": sampled exactly from the distribution in the proof; "float": a floating-point sampler,
        with an idealised guarantee.
    random : {"cryptographic", "seeded"}, default="cryptographic"
        Where the randomness came from.
    public : Mapping, optional
        Facts that were treated as public, by name; values are converted to plain JSON types.
    ledger : str, optional
        What was charged to which ledger.
    version : str, optional
        Version of the software; by default the installed one.
    rho, mu : float, optional
        The same guarantee in zero-concentrated or Gaussian differential privacy.
    unit : str
        What one record is.
    non_finite : {"raise", "zero"}, default="raise"
        What happens to a record with a NaN or an infinity.
    notes : tuple of str, default=()
        Further conditions, one sentence each, for instance that intermediate iterates stay secret.

    Raises
    ------
    ValueError
        If an argument is none of the values listed.

    Notes
    -----
    Follows the questions of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees.

    Examples
    --------
    >>> import dperm
    >>> import numpy as np
    >>> objective = dperm.Objective("logistic", np.eye(2), [1, -1], n_public=100)
    >>> statement = dperm.algorithms.noisy_gd(objective, epsilon=1.0, delta=1e-6).privacy
    >>> statement.private, statement.epsilon, statement.neighbors
    (True, 1.0, 'add_or_remove')
    >>> statement.headline
    'Differentially private (epsilon = 1, delta = 1e-06).'
    """

    def to_dict(self) -> dict[str, Any]:
        """Return all facts as plain JSON types.

        Returns
        -------
        dict
            One key per constructor argument, plus ``private`` (bool). JSON has no infinity: numbers that
            are not finite become the strings "inf", "-inf" and "nan". Absent facts are None.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> objective = dperm.Objective("logistic", np.eye(2), [1, -1], n_public=100)
        >>> statement = dperm.algorithms.noisy_gd(objective, epsilon=1.0, delta=1e-6).privacy
        >>> facts = statement.to_dict()
        >>> facts["private"], facts["epsilon"], facts["noise"], facts["sampling"]
        (True, 1.0, 'exact', 'none')
        """
        facts: dict[str, Any] = plain({f.name: getattr(self, f.name) for f in fields(self)})
        facts["private"] = self.private
        return facts

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> PrivacyStatement:
        """Rebuild a statement from the result of `to_dict`.

        Raises
        ------
        ValueError, TypeError
            For unknown keys, and for values of another type than `to_dict` gives.

        Examples
        --------
        >>> import json
        >>> import dperm
        >>> import numpy as np
        >>> objective = dperm.Objective("logistic", np.eye(2), [1, -1], n_public=100)
        >>> statement = dperm.algorithms.noisy_gd(objective, epsilon=1.0, delta=1e-6).privacy
        >>> kept = json.dumps(statement.to_dict())
        >>> PrivacyStatement.from_dict(json.loads(kept)) == statement
        True
        """
        if not isinstance(facts, Mapping):
            raise TypeError(f"a statement is a mapping of facts, got {type(facts).__name__}")
        known = {key: value for key, value in facts.items() if key != "private"}
        for key in _NUMBERS:
            if isinstance(known.get(key), str):
                known[key] = float(known[key])
        for key, value in known.items():
            if value is not None and not isinstance(value, _KINDS.get(key, str)):
                raise TypeError(f"{key} of a statement cannot be {value!r}")
        if not all(isinstance(note, str) for note in known.get("notes", ())):
            raise TypeError("notes of a statement must be texts")
        return cls(**known)

    def sections(self) -> list[tuple[str, str]]:
        """Return the statement in words: pairs of a title and a text, most important first.

        Examples
        --------
        >>> import dperm
        >>> import numpy as np
        >>> objective = dperm.Objective("logistic", np.eye(2), [1, -1], n_public=100)
        >>> statement = dperm.algorithms.noisy_gd(objective, epsilon=1.0, delta=1e-6).privacy
        >>> [title for title, text in statement.sections()][:3]
        ['What is protected', 'How strongly', 'How']
        """
        if self.epsilon == math.inf:
            return [
                ("What is protected", words.NOTHING),
                ("How", words.method(self)),
                ("Software", f"dperm {self.version}."),
            ]
        parts = [
            ("What is protected", words.protection(self)),
            *([("How strongly", words.strength(self))] if self.private else []),
            ("How", words.method(self)),
            ("Randomness", words.randomness(self)),
            ("Treated as public", words.public(self)),
            ("Budget", words.budget(self)),
            ("Not covered", words.not_covered(self)),
            ("Software", f"dperm {self.version}."),
        ]
        if self.notes:
            parts.insert(-2, ("Conditions", " ".join(self.notes)))
        return parts

    @property
    def headline(self) -> str:
        """The guarantee in one line."""
        return words.headline(self)

    def __str__(self) -> str:
        """Return a text for the person who answers for the data."""
        parts = [self.headline]
        for title, text in self.sections():
            parts.append(textwrap.fill(f"{title}. {text}", _WIDTH, break_long_words=False))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """Return a card for notebooks. Everything that came from outside is escaped."""
        tone = "good" if self.private and self.random == "cryptographic" else "warning"
        return Document("", [Text(self.headline, tone), Table(["", ""], self.sections())]).to_fragment()
