"""Simulated runs and what tasks cost in them."""
