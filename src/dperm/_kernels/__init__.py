"""Compiled kernels: no policy, no defaults, no budget."""
