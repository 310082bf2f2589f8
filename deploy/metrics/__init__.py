"""The metrics of a live run for Prometheus."""
