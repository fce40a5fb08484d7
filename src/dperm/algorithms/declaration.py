"""Turns the body of an algorithm, ``(fit, given)``, into a public function with signature and docstring.

The arguments of an algorithm are the fields of one dataclass: its settings and the common terms. They are
documented where they are declared; the algorithm's own docstring can override entries.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dperm.algorithms.fit import Fit, FitResult, Terms
from dperm.algorithms.requirements import needs

P = ParamSpec("P")
Given = TypeVar("Given", bound=Terms)
Result = TypeVar("Result", bound=FitResult)

_RAISES = """\
ValueError, TypeError
    For a setting out of range, incompatible settings, an objective that the algorithm does not support, or a
    paper calibration that does not give the claimed guarantee.
DataError
    For more records than ``n_public``, if the proof needs a bound on their number.
BudgetExceededError
    When the ledger cannot afford the fit."""


def algorithm(
    arguments: Callable[P, Given], **needed: Any
) -> Callable[[Callable[[Fit, Given], Result]], Callable[P, Result]]:
    """Decorator that makes a public function with the fields of a class as its arguments.

    Further keywords are the :class:`dperm.algorithms.requirements.Needs` of the algorithm.
    """

    def declare(body: Callable[[Fit, Given], Result]) -> Callable[P, Result]:
        signature = public_signature(arguments, inspect.signature(body).return_annotation)

        @functools.wraps(body)
        def run(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{body.__name__}() {error}") from None
            given = arguments(*args, **kwargs)
            fit = Fit(given)
            with fit.followed():
                return body(fit, given)

        run.__signature__ = signature  # type: ignore[attr-defined]
        if body.__doc__ is not None:  # python -OO strips docstrings
            theory = f"Pseudo-code, guarantee and proof: :doc:`/theory/{body.__name__}`."
            run.__doc__ = full_docstring(body.__doc__, theory, arguments, signature)
        return needs(**needed)(run)

    return declare


def public_signature(arguments: Callable[..., Terms], result: str = "FitResult") -> inspect.Signature:
    """The signature of an algorithm with these arguments, the common terms last."""
    own = inspect.signature(arguments)
    last = ("calibration", "neighbors", "ledger", "random_state", "callback")
    parameters = sorted(
        own.parameters.values(),
        key=lambda each: (each.kind, last.index(each.name) if each.name in last else -1),
    )
    written = [each.replace(annotation=_annotation(each)) for each in parameters]
    return inspect.Signature(written, return_annotation=result)


def _annotation(parameter: inspect.Parameter) -> str:
    setting = re.fullmatch(r"Setting\[(.*)\]", str(parameter.annotation))
    if setting is None:
        return str(parameter.annotation)
    return f"{setting[1]} | None" if parameter.default is None else setting[1]


def full_docstring(docstring: str, theory: str, arguments: Any, signature: inspect.Signature) -> str:
    """The docstring with `theory` and numpydoc sections for all arguments, the result and exceptions."""
    head, sections = _sections(docstring)
    entries: dict[str, str] = {}
    for kind in reversed(arguments.__mro__):
        entries |= _entries(_sections(vars(kind).get("__doc__") or "")[1].get("Attributes", ""))
    entries |= _entries(sections.get("Parameters", ""))
    described = [
        _optional(entries[name]) if parameter.default is None else entries[name]
        for name, parameter in signature.parameters.items()
    ]
    written = {
        "Parameters": "\n".join(dict.fromkeys(described)),  # names may share an entry
        "Returns": str(signature.return_annotation),
        "Raises": _RAISES,
    }
    sections = written | {name: text for name, text in sections.items() if name != "Parameters"}
    return "\n\n".join(
        [head, theory, *(f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items())]
    )


def _sections(docstring: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the sections by name."""
    head, *rest = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return head.strip(), {name: text.strip() for name, text in zip(rest[::2], rest[1::2], strict=True)}


def _entries(section: str) -> dict[str, str]:
    """The entries of a section, keyed by the names that they document."""
    entries: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section) if section else []:
        entries |= dict.fromkeys(entry.partition(" : ")[0].split(", "), entry)
    return entries


def _optional(entry: str) -> str:
    first, end, rest = entry.partition("\n")
    return entry if re.search("optional|None", first) else f"{first}, optional{end}{rest}"
