"""The empirical risk on a data set, and its private sums."""
