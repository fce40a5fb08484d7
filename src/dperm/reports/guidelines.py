"""Answers to the questions of NIST SP 800-226 about a guarantee, level by level of its pyramid."""

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

#: Starts what software cannot answer.
_HOLDER = "For the holder of the data to answer: "

_SMALL_DELTA = (
    "It must be much smaller than 1/n: publishing one record at random satisfies delta = 1/n. A cautious "
    "rule is at most 1/n^2"
)

Answers = dict[str, dict[str, str]]


def answers(statement: Facts, ledger: PrivacyLedger | None, evaluation: Evaluation | None) -> Answers:
    """The answers to each question, by level of the pyramid, from its top to its base."""
    return {
        "Privacy parameters and unit of privacy": _parameters(statement, ledger),
        "Algorithms, correctness, utility and bias": _algorithms(statement, evaluation),
        "Deployment": _deployment(statement),
    }


def _parameters(statement: Facts, ledger: PrivacyLedger | None) -> dict[str, str]:
    return {
        "What is the unit of privacy?": (
            f"{statement.unit[:1].upper()}{statement.unit[1:]}. {_HOLDER}is this all the data about a "
            "person? If a person may have k records, merge them into one, or expect k times epsilon."
        ),
        "Which data sets are neighbours?": _neighbours(statement),
        "What is epsilon?": (
            f"{statement.epsilon:g}. The guidelines set no limit, but warn that large values may not protect "
            "anyone in a meaningful way; their public draft called values up to 1 conservative. At the same "
            "delta and unit, smaller is strictly stronger."
        ),
        "What is delta?": _delta(statement),
        "Which variant of differential privacy, with which parameters?": _variant(statement),
        "How do the guarantees of several releases add up?": _composition(ledger),
        "Which other releases use the same data?": (
            f"{_HOLDER}which are there? This guarantee does not make other releases from the same records "
            "safer if they are not differentially private, such as exact scores and plots: each has its own "
            "risk."
        ),
    }


def _neighbours(statement: Facts) -> str:
    relation = Neighbours.parse(statement.neighbors)
    kind = (
        "unbounded differential privacy: it also hides whether a record was included"
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
    """The epsilon at another delta that follows from mu or rho alone."""
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
        "they have no catastrophic failures, and convert to any delta."
    )


def _composition(ledger: PrivacyLedger | None) -> str:
    if ledger is None:
        return (
            "Nothing tracks it: no ledger was given for this report. By basic composition, the epsilons and "
            "deltas of everything released from the same records add up."
        )
    name = f" {ledger.name!r}" if ledger.name else ""
    return (
        f"The ledger{name} tracks everything that is charged to it, by {ledger.accountant}, and refuses what "
        f"exceeds epsilon = {ledger.epsilon:g}, delta = {ledger.delta:g}. Spent: epsilon = "
        f"{ledger.spent:.4g}. Later fits may depend on the results of earlier ones."
    )


def _algorithms(statement: Facts, evaluation: Evaluation | None) -> dict[str, str]:
    return {
        "Which mechanism is it, and how is the influence of a record bounded?": (
            f"{statement.mechanism[:1].upper()}{statement.mechanism[1:]}. {_noise(statement)}"
            f"{_bounds(statement)}"
        ),
        "Is the implementation an existing, tested library?": (
            f"dperm {statement.version}, whose tests audit every algorithm, and check that the audits detect "
            "reduced noise. This run was not audited; audits find faults, but prove nothing."
        ),
        "How useful is the result?": _utility(evaluation),
        "Which bias may it add?": (
            "Systemic, as in every differentially private result: the fewer records a weight depends on, the "
            "noisier it is, so small groups are affected most. Statistical: bounds on records and penalties "
            "shrink weights towards zero. Human: noisy numbers without intervals are trusted too much, or "
            f"not at all. {_HOLDER}which groups matter, and how good is the result for each?"
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
        f"It was evaluated with a separate guarantee (epsilon = {evaluation.privacy.epsilon:g}, delta = "
        f"{evaluation.privacy.delta:g}), with intervals that account for sampling and noise: see above."
    )


def _tuning(public: Mapping[str, Any]) -> str:
    if "candidates" in public:
        return (
            f"Yes, within the guarantee: {public['candidates']} candidates were compared, and the guarantee "
            "covers the choice."
        )
    return (
        "The guarantee assumes that everything listed as public was chosen without the data. The defaults of "
        f"dperm are functions of public numbers. {_HOLDER}was a setting changed after looking at results?"
    )


def _deployment(statement: Facts) -> dict[str, str]:
    noise = (
        "sampled exactly from the distribution of the proof"
        if statement.noise == "exact"
        else "computed in floating point, which approximates the distribution of the proof"
    )
    source = "a cryptographic generator" if statement.random == "cryptographic" else "a SEED"
    errors = (
        "Values that are not finite, and unknown labels, stop a fit with an error, which is visible."
        if statement.non_finite == "raise"
        else "Records that are not finite contribute zero, without an error."
    )
    return {
        "Which query model is it?": (
            "Data release: the computation is fixed before the data are read, and nobody queries them."
        ),
        "Which trust model is it?": (
            "Central: whoever runs dperm holds the records and is trusted with them; those who see the "
            "result are not."
        ),
        "Which side channels are closed, and which are open?": (
            f"Closed: floating point, since contributions are summed as integers and the noise is {noise}, "
            f"from {source}. Open: how long the computation takes, and how much memory. {errors}"
        ),
        "Who has access to the records, and how are they secured?": (
            f"{_HOLDER}who, and how? The guarantee is about the result only. It does not cover the records "
            "themselves, their copies, backups and logs, and a breach of those makes it meaningless; nor "
            "does it cover the ledger file, whose seal reveals later changes."
        ),
        "Is more collected than is needed?": (
            f"{_HOLDER}is it? Differential privacy limits what a result reveals, not what is collected."
        ),
    }
