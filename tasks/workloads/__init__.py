"""Workloads as they are planned: drawn from a seed, taken from a trace, with generated inputs."""
