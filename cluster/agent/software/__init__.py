"""Limits on attempts without control groups: CPU and memory use is sampled and limited by signals."""
