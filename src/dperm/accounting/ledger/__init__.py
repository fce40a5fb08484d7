"""Budgets of data sets, in memory and durable."""
