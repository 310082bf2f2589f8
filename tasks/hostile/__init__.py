"""Attempts that do not cooperate: what `schedbed doctor --hostile` runs to see whether limits hold for any code."""
