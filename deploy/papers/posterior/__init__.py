"""Randomly drawn clusters that match a paper's printed values, and the share on which each claim holds."""
