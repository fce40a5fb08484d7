"""The sentences of a `PrivacyStatement`. No number here is computed from data."""

from __future__ import annotations

import math
from typing import Any

from dperm.accounting.neighbours import Neighbours
from dperm.statement.facts import Facts

NOTHING = (
    "Nothing. This result was computed from the exact data without noise (epsilon is infinite). It may "
    "reveal any record, in part or in full. Handle it as you would handle the raw data, and do not publish "
    "it on the strength of this software."
)

_SAMPLING = {
    "none": "Every step uses all records.",
    "poisson": "Each step uses a fresh secret sample in which every record takes part independently.",
    "without_replacement": "Each step uses a fresh secret batch of fixed size, drawn without replacement.",
    "permutation": "The records are visited in batches, in a random order.",
}

_ACCOUNTANTS = {
    "gdp": "Gaussian differential privacy, exact for Gaussian noise",
    "zcdp": "zero-concentrated differential privacy",
    "pure": "pure differential privacy",
    "privacy_profile": "the mechanism's own privacy profile",
    "pld": "privacy loss distributions",
    "rdp": "Renyi differential privacy",
    "moments": "the moments accountant",
    "advanced_composition": "advanced composition",
}

_EXACT_N = (
    "WARNING: n is the exact number of records, because no public number (n_public) was given. It is "
    "published here, and one record more or less changes it. "
)

# Above this, the odds that the guarantee allows (e^10 = 22,000) say little about the worst case.
_WEAK_EPSILON = 10.0


def unit(data: str, *, counted: bool) -> str:
    """Return what one record is; `counted` if rows come with counts."""
    if counted:
        return f"one record, of which each row of the {data} stands for as many as its count"
    return f"one record (one row of the {data})"


def headline(statement: Facts) -> str:
    """Return the guarantee in one line."""
    if statement.epsilon == math.inf:
        return "NOT PRIVATE: no differential privacy guarantee holds for this result."
    if statement.learned_exactly:
        return f"NOT PRIVATE: it rests on {statement.learned_exactly}, learned from the data without noise."
    level = f"epsilon = {statement.epsilon:g}, delta = {statement.delta:g}"
    if statement.random == "seeded":
        return (
            f"Differentially private ({level}), except towards anyone who knows the seed, or sees another "
            "result with the same one."
        )
    if statement.noise == "float":
        return f"Differentially private ({level}) up to floating-point errors in the noise."
    return f"Differentially private ({level})."


def protection(statement: Facts) -> str:
    """Say what is hidden and from whom."""
    if statement.learned_exactly:
        return (
            f"Nothing. The noise described here protects a fit, but not what the fit rests on and what was "
            f"learned from the same data without noise: {statement.learned_exactly}. That may reveal any "
            "record. Replace it by what is publicly known, and fit again."
        )
    relation = Neighbours.parse(statement.neighbors)
    hidden = (
        "whether any given record was in the data at all"
        if relation is Neighbours.ADD_OR_REMOVE
        else "what any given record contains, but not how many records there are"
    )
    return (
        f"The unit of privacy is {statement.unit}. The published result hides {hidden}: data sets that "
        f"{relation.words} ({statement.neighbors}) give every result nearly the same probability, whatever "
        "else an observer knows, now or later. Someone who contributes several records is protected less: k "
        "records count like k times epsilon."
    )


def strength(statement: Facts) -> str:
    """Say what epsilon and delta mean."""
    epsilon, delta = statement.epsilon, statement.delta
    question = (
        "whether a given record was used"
        if statement.neighbors == Neighbours.ADD_OR_REMOVE
        else "which of two versions of a record was used"
    )
    factor = f"{math.exp(epsilon):.3g}" if epsilon < 700.0 else "more than 10^300"
    exception = (
        f", apart from a failure probability of at most delta = {delta:g}"
        if delta > 0.0
        else ", without exception (delta = 0)"
    )
    guess = 1.0 / (1.0 + math.exp(-epsilon)) + delta / (1.0 + math.exp(min(epsilon, 700.0)))
    text = (
        f"One record changes the probability of any result by a factor of at most e^epsilon = {factor}"
        f"{exception}. In the worst case, someone who would have to toss a coin over {question} can "
        f"guess it from the result with {_percent(min(guess, 1.0))} success (50 % is blind guessing)."
    )
    if epsilon > _WEAK_EPSILON:
        text += " An epsilon this large gives little protection in the worst case."
    return text


def method(statement: Facts) -> str:
    """Say what was run."""
    text = f"Mechanism: {statement.mechanism}"
    if statement.steps is not None:
        text += f", {statement.steps:,} {'access' if statement.steps == 1 else 'accesses'} to the data"
    sentences = [f"{text}. {_SAMPLING.get(statement.sampling, f'Sampling: {statement.sampling}.')}"]
    limits = []
    if statement.row_norm is not None:
        limits.append(f"rows longer than {statement.row_norm:g} (Euclidean norm) are scaled down to it")
    if statement.clip is not None:
        limits.append(f"each record's gradient is clipped to a norm of at most {statement.clip:g}")
    if limits:
        sentences.append(f"{_capital(' and '.join(limits))}.")
    if statement.epsilon < math.inf:
        sentences.extend(_noise_sentences(statement))
    return " ".join(sentences)


def _noise_sentences(statement: Facts) -> list[str]:
    sentences = []
    if statement.sensitivity is not None:
        sentences.append(
            f"One record changes the released quantity by at most {statement.sensitivity:.6g} (sensitivity)."
        )
    if statement.noise_scale is not None:
        sentences.append(f"The scale of the noise is {statement.noise_scale:.6g}, in the same unit.")
    amounts = [
        f"{name} = {value:.6g}"
        for name, value in (("mu", statement.mu), ("rho", statement.rho))
        if value is not None
    ]
    accountant = _ACCOUNTANTS.get(statement.accountant)
    named = f"{statement.accountant} ({accountant})" if accountant else statement.accountant
    sentences.append(f"Accountant: {named}{'; ' if amounts else ''}{', '.join(amounts)}.")
    return sentences


def randomness(statement: Facts) -> str:
    """Say where the noise came from and how exact it is."""
    source = (
        "The noise came from a cryptographic generator keyed by the operating system"
        if statement.random == "cryptographic"
        else (
            "The run was seeded so that it can be repeated: WHOEVER KNOWS OR GUESSES THE SEED CAN REMOVE THE "
            "NOISE, and for them nothing is guaranteed. Two runs with equal seeds draw equal noise: their "
            "difference is free of it, also for those who do not know the seed. Use a seed for tests only"
        )
    )
    exactness = (
        "The noise follows exactly the distribution that the proof assumes"
        if statement.noise == "exact"
        else (
            "The noise was computed in floating point, which only approximates the distribution that the "
            "proof assumes: the guarantee is idealised"
        )
    )
    return f"{source}. {exactness}."


def public(statement: Facts) -> str:
    """List what was taken as known to everybody."""
    if not statement.public:
        return (
            "The settings named here and no others. A setting that was chosen by looking at the data tells "
            "something about the data that is not covered."
        )
    facts = {
        name: value for name, value in statement.public.items() if name not in ("exact_n", "learned_exactly")
    }
    listed = "; ".join(f"{name} = {_short(value)}" for name, value in facts.items())
    exact = _EXACT_N if statement.public.get("exact_n") else ""
    return (
        f"{listed}. {exact}The guarantee assumes that everybody may know these. A setting that was chosen by "
        "looking at the data tells something about the data that is not covered."
    )


def budget(statement: Facts) -> str:
    """Say what was charged."""
    if statement.ledger:
        charged = statement.ledger
        return f"{_capital(charged if 'charged' in charged else f'charged to {charged}')}."
    return (
        "Nothing was charged to a ledger: this statement is about this result alone. Every further result "
        "from the same data adds to what can be learned about a record."
    )


def not_covered(statement: Facts) -> str:
    """List what the guarantee does not say."""
    finite = (
        "An error that stops the computation shows: here values that are not finite, an unknown label, more "
        "records than a public number of them allows."
        if statement.non_finite == "raise"
        else "An error that stops the computation shows: here an unknown label, more records than a public "
        "number of them allows. Records with a NaN or an infinity count as empty, silently, so they are "
        "covered."
    )
    exactly = (
        f"What was learned from the data without noise before the fit: {statement.learned_exactly}. "
        if statement.learned_exactly
        else ""
    )
    return (
        f"{exactly}The time and memory that the computation takes; the raw data, their copies and logs, "
        "which whoever ran it is trusted with; records that are changed while it runs; other results from "
        "the same data that are not charged to the same ledger; conclusions about a group that would hold "
        "without any one record in it. What was done to the records before they were passed is not known "
        "here: scaling, encoding or selection that learned from them voids the guarantee, and somebody whose "
        "record was copied, or made into others (oversampling), is protected as many times less. "
        f"{finite}"
    )


def _percent(probability: float) -> str:
    value = 100.0 * probability
    return f"{value:.1f} %" if value < 99.95 else "more than 99.9 %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _short(value: Any, limit: int = 80) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
