"""Attempts that do not cooperate. `schedbed doctor --hostile` runs them to test whether limits hold for any code."""
