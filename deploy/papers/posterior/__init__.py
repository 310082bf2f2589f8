"""Checks claims on randomly drawn clusters that match the values that a paper prints.

The result is the share of these clusters on which each claim holds.
"""
