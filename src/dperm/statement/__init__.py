"""What a fit guarantees, for people and for programs."""
