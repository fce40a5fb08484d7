"""Mechanisms: exact noise and private selection."""

from dperm.mechanisms.noise import rounded_gaussian

__all__ = ["rounded_gaussian"]
