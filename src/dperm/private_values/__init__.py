"""Private values that only a mechanism can open: bounded sums, secret samples."""
