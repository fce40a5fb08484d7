"""Group privacy: the guarantee for data sets that are several steps apart."""

import math


def group_privacy(epsilon, delta, hops=2):
    """Dwork and Roth 2014, Lemma 2.2 with its delta: each step multiplies by e^epsilon and adds delta."""
    return hops * epsilon, sum(math.exp(hop * epsilon) for hop in range(hops)) * delta
