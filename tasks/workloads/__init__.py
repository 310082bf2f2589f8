"""Planned workloads: drawn from a seed, taken from a trace, with generated inputs."""
