"""Differentially private empirical risk minimisation with a compiled core and exact noise."""
