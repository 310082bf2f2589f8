"""Metrics of a live run for Prometheus."""
