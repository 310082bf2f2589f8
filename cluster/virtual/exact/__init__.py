"""Simulation of attempts that do not contend for resources."""
