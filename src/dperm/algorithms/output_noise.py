"""One noisy release of secretly trained weights, with noise chosen from public numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dperm.accounting.budget import Budget
from dperm.accounting.events import GaussianRelease, PureRelease
from dperm.accounting.gaussian import gdp_mu
from dperm.accounting.ledger.ledger import PrivacyLedger
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.norm_laplace import gaussian_or_norm_laplace
from dperm.accounting.scheduled_budget import ScheduledBudget
from dperm.accounting.units import gaussian_noise_multiplier
from dperm.algorithms.fit_result import Callback, FitResult, ledger_note
from dperm.mechanisms.random_source import RandomState
from dperm.mechanisms.release import Releaser
from dperm.objective.bounded_training import Training, check_record_count, released_sensitivity
from dperm.objective.objective import Objective
from dperm.statement.privacy_statement import PrivacyStatement

MECHANISMS = ("auto", "gaussian", "norm_laplace")

NULL_RECORD = (
    "Here 'add_or_remove' means that a record is replaced by an empty one, without loss: the number of "
    "records that sums are divided by is fixed and public."
)
SECRET_ITERATES = "The guarantee covers the published weights; the iterates that led to them stay secret."


def add_or_remove_note(relation: Neighbours) -> tuple[str, ...]:
    """What a statement adds where presence means to differ from an empty record."""
    return (NULL_RECORD,) if relation is Neighbours.ADD_OR_REMOVE else ()


@dataclass(frozen=True)
class OutputNoise:
    """Noise for one vector.

    Attributes
    ----------
    mechanism : str
        "gaussian" or "norm_laplace".
    delta : float
        What it spends: 0 for norm-Laplace noise.
    amount : float
        Noise multiplier (Gaussian), or epsilon of the release (norm-Laplace).
    budget : Budget or ScheduledBudget
        What allows this release and no other.
    """

    mechanism: str
    delta: float
    amount: float
    budget: Budget | ScheduledBudget

    def scale(self, sensitivity: float) -> float:
        """Standard deviation, or scale of the norm-Laplace law."""
        return sensitivity * self.amount if self.mechanism == "gaussian" else sensitivity / self.amount


def output_noise(epsilon: float, delta: float, dimension: int, mechanism: str) -> OutputNoise:
    """The noise that one release of a vector needs.

    Parameters
    ----------
    epsilon, delta : float
        Target; ``delta = 0`` needs norm-Laplace noise.
    dimension : int
        Number of weights.
    mechanism : {"auto", "gaussian", "norm_laplace"}
        "auto" takes the one with the smaller mean square error, see `gaussian_or_norm_laplace`.
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {MECHANISMS}, got {mechanism!r}")
    if mechanism == "auto":
        mechanism = gaussian_or_norm_laplace(epsilon, delta, dimension).mechanism
    if mechanism == "norm_laplace":
        return laplace_noise(epsilon)
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    return OutputNoise("gaussian", delta, gaussian_noise_multiplier(budget.share(parts=1), "gdp"), budget)


def laplace_noise(epsilon: float) -> OutputNoise:
    """Norm-Laplace noise for an epsilon-DP release."""
    return OutputNoise("norm_laplace", 0.0, epsilon, ScheduledBudget(PureRelease(epsilon), 1, "pure"))


def published_noise(
    epsilon: float, delta: float, scale: float, sensitivity: float, algorithm: str
) -> OutputNoise:
    """Noise of a published scale, checked against the sensitivity that is proved.

    Raises
    ------
    ValueError
        If it does not give (epsilon, delta).
    """
    if delta == 0.0:
        if sensitivity / scale > epsilon:
            raise ValueError(f"the published noise of {algorithm} does not give epsilon={epsilon:g}")
        return laplace_noise(sensitivity / scale)
    budget = Budget.from_epsilon(epsilon, delta, "gdp")
    if not budget.fits(GaussianRelease(scale / sensitivity)):
        raise ValueError(
            f"the published noise of {algorithm} does not give (epsilon={epsilon:g}, delta={delta:g}); "
            "use calibration='tight'"
        )
    return OutputNoise("gaussian", delta, scale / sensitivity, budget)


def release_trained_weights(
    objective: Objective,
    training: Training,
    noise: OutputNoise,
    epsilon: float,
    *,
    neighbors: Neighbours,
    ledger: PrivacyLedger | None,
    random_state: RandomState,
    callback: Callback | None,
    algorithm: str,
    mechanism: str,
    steps: int | None,
    public: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> FitResult:
    """Charge, train in secret, release once."""
    check_record_count(objective)
    sensitivity = released_sensitivity(training, objective, neighbors)
    releaser = Releaser(
        epsilon,
        noise.delta,
        noise.budget,
        neighbors=neighbors,
        ledger=ledger,
        random_state=random_state,
        description=algorithm,
        statement={**public, "noise": noise.mechanism},
    )
    trained = training.train(objective)
    if noise.mechanism == "gaussian":
        coef = releaser.gaussian_sum(trained, noise.amount)
    else:
        coef = releaser.norm_laplace_sum(trained, noise.amount)
    if callback is not None:
        callback({"iteration": 1, "coef": coef.copy()})
    names = {"gaussian": "Gaussian", "norm_laplace": "norm-Laplace"}
    gdp = noise.mechanism == "gaussian"
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=noise.delta,
        neighbors=neighbors,
        mechanism=f"{mechanism}, {names[noise.mechanism]} noise on the result",
        accountant=noise.budget.accountant,
        sensitivity=sensitivity,
        noise_scale=noise.scale(sensitivity),
        row_norm=objective.row_norm,
        steps=steps,
        random=releaser.random,
        non_finite=objective.non_finite,
        mu=gdp_mu(epsilon, noise.delta) if gdp else None,
        ledger=ledger_note(ledger, epsilon, noise.delta),
        public=public,
        notes=(SECRET_ITERATES, *notes, *add_or_remove_note(neighbors)),
    )
    return FitResult(coef=coef, privacy=privacy, n_iter=steps or 1, history=[])
