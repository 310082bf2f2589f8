"""A policy without a compiled version in the compiled loop: its Python code is called at each offer of a slot."""
