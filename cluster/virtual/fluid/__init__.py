"""Attempts that share CPU, disk and network by max-min fairness, in virtual time."""
