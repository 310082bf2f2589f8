"""The listeners of a run and their access control, tested from a stranger's side."""
