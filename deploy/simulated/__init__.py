"""Simulated runs, and the models of what tasks cost in the simulator."""
