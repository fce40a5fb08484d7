"""What the docstrings of the estimators share: each text stands here once, and `help` shows it filled in."""

from __future__ import annotations

import inspect
from string import Template

_TEXTS = {
    "budget": """\
epsilon : float, default=1.0
    Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
delta : float, default=1e-6
    Below 1; choose it well below one over the number of records. 0 asks for a pure guarantee, which
    some solvers have.""",
    "model": """\
solver : str, default="auto"
    "auto", or the name of an algorithm in :mod:`dperm.algorithms` that serves the loss. "auto" looks at
    public numbers only, see :func:`dperm.estimators.solvers.choose_solver`.
l2 : float, default=0.0
    Ridge strength on the scale of the mean loss.
fit_intercept : bool, default=True
    Whether to fit an intercept (an implicit column of ones, part of the row norm).
penalize_intercept : bool, default=False
    Whether the ridge term covers the intercept; some solvers need that.
row_norm : float, optional
    Public bound on the norm of a row, intercept included. Longer rows are scaled onto it, in
    training and in prediction alike. Choose it from what is known of the columns, not from the data.
    Default: the schema's bound, or 1.0 without a schema.
schema : Schema, optional
    Public description of the table. With it, ``X`` is a data frame of records as they are, here and in
    prediction, and every record is encoded by itself (or a `TabularMatrix` that it was encoded into).""",
    "class_weight": """\
class_weight : dict or "private", optional
    Public positive weights of the labels, which multiply the losses of their records; 1 for a label that is
    not in it. "private": inverse to the frequencies of the classes, of which a small part of the budget
    tells noisy ones.""",
    "target_bound": """\
target_bound : float, optional
    Public bound on ``|y|``, in the unit of the targets; a target beyond it is moved onto it. Choose it
    from what is known of the targets, not from the data. Required unless `epsilon` is infinite.""",
    "run": """\
neighbors : {"add_or_remove", "replace_one"}, optional
    What the guarantee protects: presence of a record, or its content. By default the relation of the ledger,
    and "add_or_remove" without one.
calibration : {"tight", "paper"}, default="tight"
    "paper" uses the noise that the algorithm's authors published.
learn_scales : {"auto", True, False}, default="auto"
    Whether a part of the budget tells the scales of the columns, the norm of the rows and the mean label
    before the weights are sought, so that a loose `row_norm` costs little. "auto": where public numbers say
    that it pays. True: with a solver that can; see :func:`dperm.algorithms.noisy_gd`.
solver_options : dict, optional
    Further keyword arguments of the solver, see :mod:`dperm.algorithms`.
ledger : PrivacyLedger, optional
    Shared budget; each fit is charged to it before it starts.
n_threads : int, optional
    Threads of a pass over the data; the result does not depend on it.
random_state : None, int, Generator or RandomState, default=None
    None draws cryptographic noise. Anything else makes the run reproducible, for tests: the guarantee does
    not hold against whoever knows the seed, and equal seeds cancel the noise between two models. A ledger
    refuses seeds.
non_finite : {"raise", "zero"}, default="raise"
    A record with NaN or infinity is an error, or counts for nothing.
weight_bound : float, default=1.0
    Public bound on the `sample_weight` of `fit`, chosen without a look at the weights.
n_public : int, optional
    Public number of records, which sums are divided by. By default that of the data, which is thereby
    declared public; for a part of a split ledger ``share * n``, since how many records it has is secret.
verbose : int, default=0
    Not 0: show the steps and the time left on standard error, see :func:`dperm.progress`.""",
    "fitted": """\
n_iter_ : int
    Iterations of the solver.
privacy_ : PrivacyStatement
    What was guaranteed; print it.
n_features_in_ : int
    Columns of ``X``; those that the schema describes, if there is one (``schema.feature_names`` names
    the weights).
feature_names_in_ : ndarray of str
    Their names, where they have any.""",
    "guarantee": """\
Guarantee: with a private solver and the default `random_state`, everything that `fit` sets is
(epsilon, delta)-differentially private with respect to the records, under the assumptions that
`privacy_` lists.""",
}


def with_shared_text(estimator: type) -> type:
    """Fill the shared texts in where the docstring of a class names them, as ``$budget``."""
    if estimator.__doc__ is not None:  # there is none under python -OO
        estimator.__doc__ = Template(inspect.cleandoc(estimator.__doc__)).substitute(_TEXTS)
    return estimator
