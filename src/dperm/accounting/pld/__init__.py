"""Composition of privacy loss distributions, rounded to the safe side."""
