"""Limits of attempts on hosts without control groups: their use is sampled, and attempts above their share are
stopped."""
