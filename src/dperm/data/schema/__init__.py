"""Public descriptions of tables, and how they encode a table."""
