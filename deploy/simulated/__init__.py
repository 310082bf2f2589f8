"""Simulated runs, and the cost models of tasks in the simulator."""
