"""Functions and models that load scenario files, check the values and compute the data that a run needs."""
