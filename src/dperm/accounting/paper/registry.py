"""One entrance to all comparisons of published with tight noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dperm.accounting.paper.baselines import (
    compare_dp_agd,
    compare_objective_perturbation,
    compare_objective_perturbation_pure,
    compare_privgene,
)
from dperm.accounting.paper.comparison import PaperComparison
from dperm.accounting.paper.full_batch import compare_noisy_gd, compare_output_perturbation
from dperm.accounting.paper.nonsmooth import compare_sgd_gradient, compare_sgd_output
from dperm.accounting.paper.stochastic import (
    compare_dp_lssgd,
    compare_rrpsgd,
    compare_sgd_advanced_composition,
    compare_sgd_moments,
)

_COMPARISONS: dict[str, Callable[..., PaperComparison]] = {
    "output_perturbation_gd": compare_output_perturbation,
    "rrpsgd": compare_rrpsgd,
    "noisy_gd": compare_noisy_gd,
    "dp_agd": compare_dp_agd,
    "dp_lssgd": compare_dp_lssgd,
    "sgd_adv": compare_sgd_advanced_composition,
    "sgd_ma": compare_sgd_moments,
    "objective_perturbation": compare_objective_perturbation,
    "objective_perturbation_pure": compare_objective_perturbation_pure,
    "privgene": compare_privgene,
    "dp_sgd_output": compare_sgd_output,
    "dp_sgd_gradient": compare_sgd_gradient,
}


def compare_with_paper(algorithm: str, **settings: Any) -> PaperComparison:
    """Compare the published noise of an algorithm with the tight noise, and verify the published claim.

    Parameters
    ----------
    algorithm : str
        One of ``"output_perturbation_gd"``, ``"rrpsgd"``, ``"noisy_gd"``, ``"dp_agd"``, ``"dp_lssgd"``,
        ``"sgd_adv"``, ``"sgd_ma"``, ``"objective_perturbation"``, ``"objective_perturbation_pure"``,
        ``"privgene"``, ``"dp_sgd_output"``, ``"dp_sgd_gradient"``.
    **settings
        Public numbers: epsilon, delta and the keywords of the function of `dperm.accounting.paper`.

    Returns
    -------
    PaperComparison
        Both noises, their ratio, and the true epsilon of the published noise. False claims are reported
        (``holds`` is False), not raised.

    Raises
    ------
    ValueError, TypeError
        If the algorithm is unknown, a setting is missing, unknown or outside its range, or the paper has no
        noise for these settings at all.

    Examples
    --------
    >>> round(compare_with_paper("noisy_gd", epsilon=0.1, delta=1e-5, n_samples=1000, steps=100).ratio, 2)
    1.58
    """
    if algorithm not in _COMPARISONS:
        names = ", ".join(repr(name) for name in _COMPARISONS)
        raise ValueError(f"algorithm must be one of {names}, got {algorithm!r}.")
    return _COMPARISONS[algorithm](**settings)
