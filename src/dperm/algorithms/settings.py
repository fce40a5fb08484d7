"""Checks of public settings that algorithms share."""

from __future__ import annotations

import math
import numbers
import warnings

from dperm.errors import PrivacyWarning


def check_positive_integer(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is a positive, finite number."""
    if not isinstance(value, numbers.Real) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")


def check_fraction(name: str, value: object) -> None:
    """Raise ValueError unless ``value`` is in (0, 1]."""
    if not isinstance(value, numbers.Real) or not 0.0 < value <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], got {value!r}")


def warn_unproved(algorithm: str, reason: str) -> None:
    """Warn that a published noise is used outside its proof, though the tight accountant confirms it."""
    warnings.warn(
        f"calibration='paper' of {algorithm}: {reason}; the tight accountant confirms the guarantee here",
        PrivacyWarning,
        stacklevel=4,
    )
