"""Selection rates of PrivGene (Zhang et al. 2013): candidates ``parent +- h e_j``, exponential mechanism."""

from __future__ import annotations

import math

from dperm.accounting._checks import check_non_negative, check_positive, check_steps
from dperm.accounting.neighbours import Neighbours
from dperm.accounting.selection import bounded_range_eta, exponential_mechanism_rate


def offspring_range(
    entry_bound: float, stride: float, neighbors: str = "add_or_remove", clip: float = math.inf
) -> float:
    """Range of one record's effect on the loss sums of the candidates.

    Parameters
    ----------
    entry_bound : float
        ``|x_j| <= L_inf``, times the Lipschitz constant of the loss in the margin, > 0.
    stride : float
        h, > 0.
    neighbors : {"add_or_remove", "replace_one"}
        Relation.
    clip : float, default=inf
        Clip of the losses, if any.

    Returns
    -------
    float
        ``r_1 = min(clip, 2 L_inf h)`` under add_or_remove, ``2 r_1`` under replace_one.
    """
    single = min(2.0 * check_positive(entry_bound, "entry_bound") * check_positive(stride, "stride"), clip)
    return Neighbours.parse(neighbors).score_range_factor * single


def privgene_rate(rho: float, generations: int, score_range: float) -> float:
    """Rate ``c = sqrt(8 rho/T)/r`` of each selection, under zCDP."""
    share = check_non_negative(rho, "rho") / check_steps(generations, "generations")
    return exponential_mechanism_rate(bounded_range_eta(share), score_range)
