"""The clusters that fit what a paper prints about its own, and the share of them on which each claim holds."""
