"""Adaptive stretch: slowing down a live run while other programs use the host's CPU."""
