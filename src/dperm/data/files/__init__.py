"""Records in files that are read chunk by chunk."""
