"""Clusters that fit the values that a paper prints about its cluster, and the share on which each claim holds."""
