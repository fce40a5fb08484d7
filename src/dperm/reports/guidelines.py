"""Answers to what NIST SP 800-226 asks of a differential privacy guarantee, level by level of its pyramid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm._document import Link
from dperm.accounting import PrivacyLedger, gdp_epsilon, zcdp_epsilon
from dperm.accounting.neighbours import Neighbours
from dperm.metrics.evaluation import Evaluation
from dperm.statement.facts import Facts

SOURCE = Link(
    "NIST Special Publication 800-226, Guidelines for Evaluating Differential Privacy Guarantees, March 2025",
    "https://doi.org/10.6028/NIST.SP.800-226",
)

#: What no software can answer.
_HOLDER = "For the holder of the data to answer: "

_SMALL_DELTA = (
    "It must be very small beside 1/n: to publish one record drawn at random satisfies delta = 1/n. A "
    "cautious rule is at most 1/n^2"
)

Answers = dict[str, dict[str, str]]


def answers(statement: Facts, ledger: PrivacyLedger | None, evaluation: Evaluation | None) -> Answers:
    """Answers by question, by level of the pyramid from its top to its base."""
    return {
        "Privacy parameters and unit of privacy": _parameters(statement, ledger),
        "Algorithms, correctness, utility and bias": _algorithms(statement, evaluation),
        "Deployment": _deployment(statement),
    }


def _parameters(statement: Facts, ledger: PrivacyLedger | None) -> dict[str, str]:
    return {
        "What is the unit of privacy?": (
            f"{statement.unit[:1].upper()}{statement.unit[1:]}. {_HOLDER}is this all that there is of a "
            "person? If a person may have k records, merge them into one, or count on k times epsilon."
        ),
        "Which data sets are neighbours?": _neighbours(statement),
        "What is epsilon?": (
            f"{statement.epsilon:g}. The guidelines set no limit and warn of large values, which may protect "
            "nobody in a meaningful way; their public draft called values up to 1 conservative. At the same "
            "delta and unit, smaller is strictly stronger."
        ),
        "What is delta?": _delta(statement),
        "Which variant of differential privacy, with which parameters of its own?": _variant(statement),
        "How do the guarantees of several releases add up?": _composition(ledger),
        "Which other releases use the same data?": (
            f"{_HOLDER}which are there? Releases without differential privacy from the same records, exact "
            "scores and plots among them, are not made safer by this one: each has a risk of its own."
        ),
    }


def _neighbours(statement: Facts) -> str:
    relation = Neighbours.parse(statement.neighbors)
    kind = (
        "unbounded differential privacy: that a record took part is hidden, too"
        if relation is Neighbours.ADD_OR_REMOVE
        else "bounded differential privacy: the number of records is public"
    )
    return f"Those that {relation.words} ({statement.neighbors}); {kind}."


def _delta(statement: Facts) -> str:
    if statement.delta == 0.0:
        return "0: the guarantee is pure and has no exceptions."
    n = statement.public.get("n")
    if not isinstance(n, int) or n < 1:
        return f"{statement.delta:g}. {_SMALL_DELTA}; n is not public here."
    small = "as it is" if statement.delta * n * n <= 1.0 else "which it EXCEEDS"
    return (
        f"{statement.delta:g}, that is {statement.delta * n:.3g} / n for n = {n:,} records. {_SMALL_DELTA} = "
        f"{1.0 / n**2:.3g}, {small}.{_at_that_delta(statement, 1.0 / n**2)}"
    )


def _at_that_delta(statement: Facts, delta: float) -> str:
    """What the parameter of its own variant gives at another delta."""
    if statement.mu is not None:
        return f" At that delta mu alone gives epsilon = {gdp_epsilon(statement.mu, delta):.3g}."
    if statement.rho is not None:
        return f" At that delta rho alone gives epsilon = {zcdp_epsilon(statement.rho, delta):.3g}."
    return ""


def _variant(statement: Facts) -> str:
    own = {"mu": ("Gaussian", statement.mu), "rho": ("zero-concentrated", statement.rho)}
    found = [
        f"{kind} differential privacy with {name} = {value:.6g}"
        for name, (kind, value) in own.items()
        if value is not None
    ]
    stated = "pure" if statement.delta == 0.0 else "approximate, (epsilon, delta)"
    if not found:
        return f"{stated.capitalize()} differential privacy, as above."
    return (
        f"{' and '.join(found)}, from which epsilon and delta follow. The guidelines prefer such variants: "
        "nothing fails catastrophically in them, and they convert to any delta."
    )


def _composition(ledger: PrivacyLedger | None) -> str:
    if ledger is None:
        return (
            "Nothing keeps account: no ledger was given for this report. By basic composition epsilons and "
            "deltas of everything released from the same records add up."
        )
    name = f" {ledger.name!r}" if ledger.name else ""
    return (
        f"The ledger{name} keeps account of everything that is charged to it, by {ledger.accountant}, and "
        f"refuses what exceeds epsilon = {ledger.epsilon:g}, delta = {ledger.delta:g}. Spent: epsilon = "
        f"{ledger.spent:.4g}. Later fits may depend on the results of earlier ones."
    )


def _algorithms(statement: Facts, evaluation: Evaluation | None) -> dict[str, str]:
    return {
        "Which mechanism is it, and how is the influence of a record bounded?": (
            f"{statement.mechanism[:1].upper()}{statement.mechanism[1:]}. {_noise(statement)}"
            f"{_bounds(statement)}"
        ),
        "Is the implementation an existing, tested library?": (
            f"dperm {statement.version}, whose tests attack every algorithm and must catch it with its noise "
            "cut. This run was not audited; audits find faults, and prove nothing."
        ),
        "How useful is the result?": _utility(evaluation),
        "Which bias may it add?": (
            "Systemic, as every differentially private result: the fewer records show what a weight stands "
            "for, the more of it is noise, so small groups bear most of it. Statistical: bounds on records "
            "and penalties pull weights towards zero. Human: noisy numbers without their intervals are "
            f"trusted too much, or not at all. {_HOLDER}which groups matter, and how good is it for each?"
        ),
        "Were settings tuned on the data?": _tuning(statement.public),
    }


def _noise(statement: Facts) -> str:
    if statement.noise_scale is None or statement.sensitivity is None:
        return ""
    return (
        f"The scale of the noise is {statement.noise_scale:.4g}, for a sensitivity of "
        f"{statement.sensitivity:.4g}. "
    )


def _bounds(statement: Facts) -> str:
    limits = {"row norm": statement.row_norm, "norm of a gradient": statement.clip}
    found = [f"{name} at most {value:g}" for name, value in limits.items() if value is not None]
    return f"Bounds on a record: {', '.join(found)}." if found else "The mechanism's statement says how."


def _utility(evaluation: Evaluation | None) -> str:
    if evaluation is None:
        return "It was not evaluated in this report. dperm.metrics.evaluate measures it with a guarantee."
    if not evaluation.privacy.private:
        return "It was evaluated, without a guarantee for the records that it was evaluated on: see above."
    return (
        f"It was evaluated with a guarantee of its own (epsilon = {evaluation.privacy.epsilon:g}, delta = "
        f"{evaluation.privacy.delta:g}), with intervals that count sampling and noise: see above."
    )


def _tuning(public: Mapping[str, Any]) -> str:
    if "candidates" in public:
        return (
            f"Yes, within the guarantee: {public['candidates']} candidates were compared, and it covers the "
            "choice."
        )
    return (
        "The guarantee takes all that is listed as public for fixed without the data. Defaults of dperm are "
        f"functions of public numbers. {_HOLDER}was a setting changed after looking at results?"
    )


def _deployment(statement: Facts) -> dict[str, str]:
    noise = (
        "sampled exactly from the distribution of the proof"
        if statement.noise == "exact"
        else "computed in floating point, which approximates the distribution of the proof"
    )
    source = "a cryptographic generator" if statement.random == "cryptographic" else "a SEED"
    errors = (
        "An error for values that are not finite, or unknown labels, stops a fit and shows."
        if statement.non_finite == "raise"
        else "Records that are not finite count for nothing, without an error."
    )
    return {
        "Which query model is it?": (
            "The data release model: what is computed is fixed before the data are read; nobody queries them."
        ),
        "Which trust model is it?": (
            "The central one: whoever runs dperm holds the records and is trusted with them; whoever sees "
            "the result is not."
        ),
        "Which side channels are closed, and which are open?": (
            f"Closed: floating point, since contributions are summed as integers and the noise is {noise}, "
            f"from {source}. Open: how long the computation takes, and how much memory. {errors}"
        ),
        "Who has access to the records, and how are they secured?": (
            f"{_HOLDER}who, and how? The guarantee is about the result. It says nothing of the records, "
            "their copies, backups and logs, a breach of which leaves it without meaning, nor of the "
            "ledger's file, whose seal shows later changes."
        ),
        "Is more collected than is needed?": (
            f"{_HOLDER}is it? Differential privacy limits what a result reveals, not what is collected."
        ),
    }
