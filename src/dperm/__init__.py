"""Differentially private empirical risk minimisation of linear models."""
