"""The plain case of a simulation as a compiled loop over arrays; it makes the very rows that the objects make."""
