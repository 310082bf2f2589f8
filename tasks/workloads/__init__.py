"""Planned workloads: drawn at random from a seed or converted from a trace, with generated input data."""
