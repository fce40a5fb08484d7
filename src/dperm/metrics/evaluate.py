"""Evaluation of a model from one private release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dperm.accounting import PrivacyLedger, gdp_mu
from dperm.accounting.budget import Budget
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import check_target, gaussian_noise_multiplier
from dperm.algorithms.settings import positive_or_infinite
from dperm.data.files.record_files import RecordFiles
from dperm.estimators.design import files_for
from dperm.estimators.input_checks import labelled, missing_labels_named
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import RandomState, random_source
from dperm.mechanisms.release import Releaser
from dperm.metrics.estimates import Released
from dperm.metrics.evaluation import Evaluation
from dperm.metrics.judging import Judge, sum_over
from dperm.metrics.parts import JointSum
from dperm.metrics.plan import Plan, Settings, plan_for
from dperm.statement.facts import charge_note
from dperm.statement.privacy_statement import PrivacyStatement
from dperm.statement.words import unit

_PUBLIC_MODEL = ("The weights of the model are public here: another statement covers how they were made.",)
_SCORES_APART = (
    "The model, which is not of dperm, is assumed to score each record on its own: the same bits, whatever "
    "its position and the other records."
)


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike | None,
    epsilon: float,
    delta: float,
    *,
    metrics: str | Sequence[str] | None = None,
    loss_bound: float | Mapping[str, float] | None = None,
    bins: int = 64,
    counts: ArrayLike | None = None,
    drop_missing_labels: bool = False,
    ledger: PrivacyLedger | None = None,
    neighbors: str | None = None,
    random_state: RandomState = None,
) -> Evaluation:
    """Metrics of a model on held-out records, with intervals, from one Gaussian release of exact sums.

    Parameters
    ----------
    model : estimator
        A fitted estimator of dperm or scikit-learn, or a pipeline, with `predict`, and with `predict_proba`
        or `decision_function` for curves. Its weights and labels are public: it was made without these
        records, or is private itself. It must score each record independently of the others.
    X, y : records and their labels or targets
        Whatever the model predicts: arrays, CSR matrices, tables, data frames, Dask collections; or files
        (`dperm.data.scan_parquet`) with ``y=None``. Scores are computed block by block.
    epsilon, delta : float
        Budget of this release. ``epsilon=inf`` evaluates exactly, without privacy; delta may be 0 then.
    metrics : str or sequence of str, optional
        For classifiers: accuracy, confusion_matrix, balanced_accuracy, precision, recall, f1, mcc, log_loss,
        brier, roc_auc, average_precision (for more than two classes the one-against-rest mean); for two
        classes also roc_curve, precision_recall_curve, calibration. For regressors: mae, mse, pinball, r2.
        By default all but log_loss for two classes, those of the confusion matrix for more or without scores,
        and mae, mse and r2 for regressors. Fewer metrics have less noise.
    loss_bound : float or mapping, optional
        Where a record's loss is clipped, in the unit of the loss; by name (log_loss, mae, mse, pinball, and
        target for the targets of r2) if there are several. By default ``4 + log(number of classes)``, and for
        regressors derived from their `target_bound`.
    bins : int, default=64
        Scores are sorted into bins that hold at most about ``1 / bins`` of each class, as far as the noise
        lets this be known.
    counts : array_like of int, optional
        Multiplicity of each row. Neighbouring data differ in one record.
    drop_missing_labels : bool, default=False
        Leave out records without a label or target; under add_or_remove only.
    ledger : PrivacyLedger, optional
        Charged once, before the noise is drawn; for instance the part of a split that holds the records.
    neighbors : {"add_or_remove", "replace_one"}, optional
        By default the ledger's relation, or "add_or_remove" without a ledger.
    random_state : None, int or Generator
        None draws cryptographic noise.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        For invalid arguments or data. Nothing is charged.
    BudgetExceededError
        If the ledger cannot afford the release. Nothing is charged.

    Notes
    -----
    Each record adds to one vector of integers: its cell in the confusion matrix, the bins of its score, wide
    and narrow, its losses in units of their bound. The vector is released at once, and metrics are computed
    from it. The intervals account for the sampling of the records, for the noise, and for the order of scores
    within a bin, which is not known: models with few distinct scores have wide ones. A record that cannot
    be scored counts with a fixed score; losses and probabilities out of their range are clipped to it. Values
    and intervals that the noise has moved out of the range of a metric are moved back to its end.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(4000, 2))
    >>> y = X[:, 0] > 0
    >>> model = LogisticRegression().fit(X[:2000], y[:2000])
    >>> found = evaluate(model, X[2000:], y[2000:], 1.0, 1e-6, metrics="accuracy", random_state=0)
    >>> found["accuracy"].low > 0.9
    True
    """
    epsilon, delta = check_target(epsilon, delta)
    positive_or_infinite("epsilon", epsilon)
    if not isinstance(ledger, PrivacyLedger | None):
        raise TypeError(f"ledger must be a ledger of dperm.accounting or None, got {ledger!r}")
    relation = relation_of(neighbors, ledger)
    source = random_source(random_state)
    exact, size_known = epsilon == math.inf, relation is Neighbours.REPLACE_ONE
    judge = Judge(model)
    settings = Settings(loss_bound, bins, exact, size_known or exact)
    plan = plan_for(judge, metrics, settings)
    joint = JointSum(judge.portable(), tuple(plan.parts.values()), exact)
    budget = Budget.from_epsilon(epsilon, delta)
    multiplier = gaussian_noise_multiplier(budget.share(parts=1))
    sigma = multiplier * joint.sensitivity(relation)
    gaussian_scale(sigma, joint.grid)  # refuses noise that does not fit the grid
    if isinstance(X, RecordFiles):
        X = files_for(model, X)
    if drop_missing_labels:
        X, y, counts = labelled(relation, X, y, counts)
    with missing_labels_named(y):
        total, n_records = sum_over(joint, X, y, counts)
    private = None if exact else joint.bounded(total, n_records)
    facts = _public_facts(judge, plan, bins) | ({"n": n_records} if settings.size_known else {})
    release = Releaser(
        epsilon,
        delta,
        budget,
        neighbors=relation,
        ledger=ledger,
        random_state=source,
        description="evaluate",
        statement=facts,
    )
    released = total if private is None else release.gaussian_sum(private, multiplier)
    privacy = PrivacyStatement(
        epsilon=epsilon,
        delta=0.0 if exact else delta,
        neighbors=relation,
        mechanism=_mechanism(plan, joint.size, exact),
        accountant="none" if exact else "gdp",
        sensitivity=None if exact else joint.sensitivity(relation),
        noise_scale=None if exact else sigma,
        steps=1,
        random=release.random,
        public=facts,
        ledger=charge_note(ledger, epsilon, delta),
        mu=None if exact else gdp_mu(epsilon, delta),
        unit=unit("evaluated data", counted=counts is not None),
        non_finite=judge.non_finite,
        notes=_PUBLIC_MODEL if judge.scores_one_by_one else (*_PUBLIC_MODEL, _SCORES_APART),
    )
    pieces = joint.split(np.asarray(released, dtype=np.float64))
    found = Released(plan, pieces, sigma, n_records if settings.size_known else None, bins)
    return Evaluation(
        {name: found.estimate(name) for name in plan.names}, privacy, found.size.n, judge.classes
    )


def _public_facts(judge: Judge, plan: Plan, bins: int) -> dict[str, Any]:
    """The public facts for the statement and the ledger."""
    facts: dict[str, Any] = {"model": type(judge.model).__name__, "metrics": list(plan.names)}
    if judge.classes is not None:
        facts["classes"] = judge.classes.tolist()
    if "scores" in plan.parts:
        facts["bins"] = int(bins)
    if plan.bounds:
        facts["loss_bound"] = plan.bounds
    return facts


def _mechanism(plan: Plan, size: int, exact: bool) -> str:
    what = f"{size} sums over the records ({', '.join(plan.parts)})"
    return f"none: {what}, exact" if exact else f"Gaussian noise on {what}, released at once"
