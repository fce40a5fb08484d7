"""Privacy ledgers: budgets of data sets, in memory and on disk."""
