"""Public descriptions of tables, and how a table is read by one."""
