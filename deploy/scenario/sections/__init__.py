"""Independent keys of a scenario file: their models, and their resolved form."""
