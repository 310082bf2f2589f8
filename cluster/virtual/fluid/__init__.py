"""Simulation of attempts that share CPU, disk and network by max-min fairness."""
