"""The display during a run."""
