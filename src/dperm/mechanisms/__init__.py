"""Mechanisms: exact noise, private selection, and the door from private sums to numbers."""

from dperm.mechanisms.noise import rounded_gaussian
from dperm.mechanisms.release import release_without_privacy

__all__ = ["release_without_privacy", "rounded_gaussian"]
