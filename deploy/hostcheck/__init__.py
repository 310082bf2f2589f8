"""The command `schedbed hosts check`: what the hosts of a Ray cluster have, and what they lack for a run."""
