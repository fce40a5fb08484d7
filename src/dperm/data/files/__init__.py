"""Records in files, read chunk by chunk."""
