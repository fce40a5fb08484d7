"""Values that only the door opens: bounded sums, secret samples."""
