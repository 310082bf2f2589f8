"""Models of single keys of a scenario file, with functions that resolve their values."""
