"""How good a model is, from one private release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dperm.accounting import Budget, PrivacyLedger, gaussian_noise_multiplier, gdp_mu
from dperm.accounting.ledger.terms import relation_of
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import check_target
from dperm.algorithms.settings import positive_or_infinite
from dperm.mechanisms.noise import gaussian_scale
from dperm.mechanisms.random_source import RandomState, random_source
from dperm.mechanisms.release import Releaser
from dperm.metrics.estimates import Released
from dperm.metrics.evaluation import Evaluation
from dperm.metrics.judging import Judge
from dperm.metrics.parts import JointSum
from dperm.metrics.plan import Plan, Settings, plan_for
from dperm.metrics.records import sum_over
from dperm.statement.charges import charge_note
from dperm.statement.privacy_statement import PrivacyStatement

_PUBLIC_MODEL = ("The weights of the model are public here: another statement covers how they were made.",)
_SCORES_APART = (
    "The model, which is other software, is taken to score each record by itself, alike to the last bit "
    "wherever it stands and whatever other records there are."
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
    bins: int = 16,
    counts: ArrayLike | None = None,
    ledger: PrivacyLedger | None = None,
    neighbors: str | None = None,
    random_state: RandomState = None,
) -> Evaluation:
    """Metrics of a model on held-out records, with intervals, from one Gaussian release of exact sums.

    Parameters
    ----------
    model : estimator
        Fitted, with `predict`, and `predict_proba` or `decision_function` for curves: of dperm, of
        scikit-learn, or a pipeline. Its weights, and its labels, are public: it was made without these
        records, or is private itself. It must score each record by itself.
    X, y : records and their labels or targets
        Whatever the model predicts: arrays, CSR matrices, tables, data frames, Dask collections; or files
        (`dperm.data.scan_parquet`) with ``y=None``. Scores are computed block by block.
    epsilon, delta : float
        Of this release. ``epsilon=inf`` evaluates exactly and protects nothing; delta may be 0 then.
    metrics : str or sequence of str, optional
        Of classifiers: accuracy, confusion_matrix, balanced_accuracy, precision, recall, f1, mcc, log_loss,
        brier, roc_auc, average_precision (of more than two classes the mean of each against the others); of
        two classes also roc_curve, precision_recall_curve, calibration. Of regressors: mae, mse, pinball, r2.
        By default all but log_loss, or those of the confusion matrix, or mae, mse and r2. The fewer are asked
        for, the less noise.
    loss_bound : float or mapping, optional
        What a record's loss is clipped at, in the unit of the loss; by name (log_loss, mae, mse, pinball, and
        target for that of r2) where there are several. By default ``4 + log(number of classes)``, and for
        regressors what their `target_bound` says.
    bins : int, default=16
        Of the scores. More bins follow the curve more closely, and carry more noise.
    counts : array_like of int, optional
        How many identical records each row stands for. Neighbouring data differ in one record.
    ledger : PrivacyLedger, optional
        Charged once, before the noise is drawn; the part of a split that the records are, for instance.
    neighbors : {"add_or_remove", "replace_one"}, optional
        By default the ledger's, and add_or_remove without one.
    random_state : None, int or Generator
        None: cryptographic noise.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        For an argument or data that cannot be used. Nothing is charged.
    BudgetExceededError
        If the ledger cannot afford the release. Nothing is charged.

    Notes
    -----
    Each record adds to a vector of integers: its cell in the confusion matrix, the bin of its score, its
    losses in units of their bound. The vector is released at once. Metrics and intervals are computed from
    it; they count the sampling of the records and the noise. A record that cannot be scored counts with a
    fixed score. Scores are rounded to bins, which understates AUC by up to some thousandths with 16 of them.

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
    total, n_records = sum_over(joint, X, y, counts)
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
    released = total if exact else release.gaussian_sum(joint.bounded(total), multiplier)
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
        unit="one record (one row of the evaluated data)",
        non_finite=judge.non_finite,
        notes=_PUBLIC_MODEL if judge.scores_one_by_one else (*_PUBLIC_MODEL, _SCORES_APART),
    )
    pieces = joint.split(np.asarray(released, dtype=np.float64))
    found = Released(plan, pieces, sigma, n_records if settings.size_known else None)
    return Evaluation(
        {name: found.estimate(name) for name in plan.names}, privacy, found.size.n, judge.classes
    )


def _public_facts(judge: Judge, plan: Plan, bins: int) -> dict[str, Any]:
    """What the statement and the ledger name as public."""
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
