"""Studies made of several runs: whatif, validate, profile."""
