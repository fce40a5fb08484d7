"""Text that the docstrings of the estimators share, each written once and filled in at import."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from string import Template

_TEXTS = {
    "budget": """\
epsilon : float, default=1.0
    Privacy budget of one call of `fit`, greater than 0; infinite means no privacy.
delta : float, default=1e-6
    Less than 1; choose it well below one over the number of records. 0 requires a pure guarantee, which
    some solvers have.""",
    "model": """\
solver : str, default="auto"
    "auto", or the name of an algorithm in :mod:`dperm.algorithms` that supports the loss. "auto" chooses by
    public numbers only, see :func:`dperm.estimators.solvers.choose_solver`.
l2 : float, default=0.0
    Ridge strength on the scale of the mean loss.
fit_intercept : bool, default=True
    Whether to fit an intercept (an implicit column of ones, part of the row norm).
penalize_intercept : bool, default=False
    Whether the ridge term includes the intercept; some solvers need that.
row_norm : float, optional
    Public bound on the Euclidean norm of a row, intercept included. Longer rows are scaled down to it, in
    training and prediction alike. Choose it from what is known about the columns, not from the data.
    Default: the schema's bound, or 1.0 without a schema.
schema : Schema, optional
    Public description of the table. With it, ``X`` is a data frame of raw records, here and in prediction,
    each of which is encoded independently of the others (or a `TabularMatrix` that is already encoded).""",
    "class_weight": """\
class_weight : dict or "private", optional
    Public positive weights of the labels, which multiply the losses of their records; 1 for a label that is
    not in it. "private": weights inverse to noisy class frequencies, which take a small part of the
    budget.""",
    "target_bound": """\
target_bound : float, optional
    Public bound on ``|y|``, in the unit of the targets, which are clipped to it. Choose it from what is known
    about the targets, not from the data. Required unless `epsilon` is infinite.""",
    "run": """\
neighbors : {"add_or_remove", "replace_one"}, optional
    What the guarantee protects: the presence of a record, or its content. By default the ledger's relation,
    or "add_or_remove" without a ledger.
calibration : {"tight", "paper"}, default="tight"
    "paper" uses the noise that the algorithm's authors published.
learn_scales : {"auto", True, False}, default="auto"
    Whether to spend part of the budget on estimating the scales of the columns, the norm of the rows and the
    mean label, or the best constant prediction of real targets and their distance from it, first: loose
    bounds then cost little, and so do targets far from 0. "auto": if public numbers say that it is
    worthwhile. True: requires a solver that supports it; see :func:`dperm.algorithms.noisy_gd`.
solver_options : dict, optional
    Further keyword arguments of the solver, see :mod:`dperm.algorithms`.
ledger : PrivacyLedger, optional
    Shared budget, charged before each fit starts.
n_threads : int, optional
    Number of threads for a pass over the data; the result does not depend on it.
random_state : None, int, Generator or RandomState, default=None
    None draws cryptographic noise. Anything else makes the run reproducible, for tests: the guarantee does
    not hold against anyone who knows the seed, and noise of equal seeds cancels between two models. A ledger
    refuses seeds.
non_finite : {"raise", "zero"}, default="raise"
    Whether a record with NaN or infinity is an error or contributes zero.
weight_bound : float, default=1.0
    Public bound on the `sample_weight` of `fit`, chosen without looking at the weights.
n_public : int, optional
    Public number of records, which sums are divided by; it may be rounded. By default the exact number, which
    is thereby published: under add_or_remove with an ExactSizeWarning, and refused for a part of a split
    ledger, whose number of records is secret (`LedgerPart.n_public`).
verbose : int, default=0
    If not 0, show the steps and the time left on standard error, see :func:`dperm.progress`.""",
    "fitted": """\
n_iter_ : int
    Number of iterations of the solver.
privacy_ : PrivacyStatement
    The guarantee; print it.
n_features_in_ : int
    Number of columns of ``X``; with a schema, of those that it describes (``schema.feature_names`` names
    the weights).
feature_names_in_ : ndarray of str
    Names of the columns, if they have any.""",
    "guarantee": """\
Guarantee: with a private solver and the default `random_state`, everything that `fit` sets is
(epsilon, delta)-differentially private with respect to the records, under the assumptions that
`privacy_` lists.""",
}


def with_shared_text(estimator: type) -> type:
    """Fill in the shared texts where the docstring of a class refers to them, as in ``$budget``."""
    estimator.__doc__ = filled(estimator.__doc__, _TEXTS)
    return estimator


def filled(docstring: str | None, texts: Mapping[str, str]) -> str | None:
    """The docstring with texts in place of ``$name``; there is none under ``python -OO``."""
    return None if docstring is None else Template(inspect.cleandoc(docstring)).substitute(texts)
