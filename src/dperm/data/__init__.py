"""Design matrices: what the kernels can read."""
