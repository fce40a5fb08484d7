"""Published guarantees of well-known deployments, as their sources state them, for comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dperm._document import Link, Table
from dperm.statement.facts import Facts

CAUTION = (
    "Epsilons are comparable only if unit, neighbouring relation, trust model and delta are the same, which "
    "is not the case here. A value is not safe because others use it. A guarantee for a day or a month "
    "covers that day or month only: over several, what is revealed about a person adds up."
)
REGISTRY = Link("the registry of deployments", "https://github.com/opendp/deployments-registry-data")


@dataclass(frozen=True)
class Deployment:
    """A published guarantee.

    Attributes
    ----------
    who, what : str
    year : int
    epsilon, delta : float
    unit : str
        Unit of privacy, with the neighbouring relation if the source states it.
    trust : {"central", "local"}
        Whether a curator holds the records, or noise is added where they are collected.
    source : str
        URL.
    note : str
    """

    who: str
    what: str
    year: int
    epsilon: float
    delta: float
    unit: str
    trust: str
    source: str
    note: str = ""


DEPLOYMENTS = (
    Deployment(
        "Wikimedia Foundation",
        "page views by country",
        2023,
        1.0,
        1e-7,
        "what one device views on one day, at most 10 pages",
        "central",
        "https://arxiv.org/abs/2308.16298",
        "stated as rho = 0.015 of zero-concentrated privacy, which is stronger",
    ),
    Deployment(
        "Microsoft",
        "telemetry of Windows",
        2017,
        1.672,
        0.0,
        "what one user's device reports in six hours",
        "local",
        "https://www.microsoft.com/en-us/research/publication/collecting-telemetry-data-privately/",
    ),
    Deployment(
        "US Census Bureau",
        "2020 Census, redistricting data: housing units",
        2021,
        2.47,
        1e-10,
        "one housing unit, replaced",
        "central",
        "https://arxiv.org/abs/2204.08986",
        "rho = 0.07",
    ),
    Deployment(
        "Google",
        "COVID-19 Community Mobility Reports",
        2020,
        2.64,
        0.0,
        "what one user does on one day, added or removed",
        "central",
        "https://arxiv.org/abs/2004.04145",
    ),
    Deployment(
        "Apple",
        "popular emojis",
        2017,
        4.0,
        0.0,
        "one emoji typed (one event)",
        "local",
        "https://machinelearning.apple.com/research/learning-with-privacy-at-scale",
    ),
    Deployment(
        "LinkedIn",
        "labour market insights: top employers",
        2020,
        4.8,
        4e-10,
        "one hiring (one event), per monthly report",
        "central",
        "https://arxiv.org/abs/2010.13981",
    ),
    Deployment(
        "Google",
        "Gboard, Spanish next-word model",
        2022,
        8.9,
        1e-10,
        "all that one device trains on, added or removed",
        "central",
        "https://research.google/blog/federated-learning-with-formal-differential-privacy-guarantees/",
        "rho = 0.81",
    ),
    Deployment(
        "Israeli Ministry of Health",
        "live births of 2014, synthetic records",
        2024,
        9.98,
        0.0,
        "one birth",
        "central",
        "https://birth.dataset.pub",
    ),
    Deployment(
        "US Census Bureau",
        "2020 Census, redistricting data: persons",
        2021,
        17.14,
        1e-10,
        "one person's record, replaced",
        "central",
        "https://arxiv.org/abs/2204.08986",
        "rho = 2.56",
    ),
    Deployment(
        "LinkedIn",
        "Audience Engagements API",
        2020,
        34.9,
        7e-9,
        "one member's data of one month",
        "central",
        "https://arxiv.org/abs/2002.05839",
    ),
)


def comparison(statement: Facts) -> Table:
    """A table of the deployments and this result, sorted by epsilon."""
    heads = ["who", "what", "year", "epsilon", "delta", "unit of privacy", "trust model", "remarks", "source"]
    own = ["THIS RESULT", "", "", statement.epsilon, statement.delta, _unit(statement), "central", "", ""]
    rows: Iterable[list[Any]] = (
        [*_cells(each), Link(_short(each.source), each.source)] for each in DEPLOYMENTS
    )
    return Table(heads, sorted([own, *rows], key=lambda row: float(row[3])))


def _short(address: str) -> str:
    """Short name of a source: the arXiv identifier, or the host."""
    host, _, path = address.removeprefix("https://").removeprefix("www.").partition("/")
    return path.replace("abs/", "arXiv:") if host == "arxiv.org" else host


def _cells(each: Deployment) -> list[Any]:
    facts = (each.what, str(each.year), each.epsilon, each.delta, each.unit, each.trust, each.note)
    return [each.who, *facts]


def _unit(statement: Facts) -> str:
    change = "replaced" if statement.neighbors == "replace_one" else "added or removed"
    return f"{statement.unit}, {change}"
