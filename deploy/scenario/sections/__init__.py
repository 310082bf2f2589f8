"""Models of single keys of a scenario file, and functions that convert the values of these keys."""
