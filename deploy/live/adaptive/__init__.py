"""Adaptive stretch: a live run is slowed down while other programs use the host's CPU."""
