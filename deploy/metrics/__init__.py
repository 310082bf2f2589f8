"""What a live run measures, for Prometheus."""
