"""Studies that need several runs: whatif, validate, profile."""
