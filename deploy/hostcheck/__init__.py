"""The command `schedbed hosts check`: whether the hosts of a Ray cluster have all that a run needs."""
