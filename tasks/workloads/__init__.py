"""Planned workloads, drawn at random from a seed or converted from a trace, and generated input data."""
