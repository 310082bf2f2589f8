"""The command `schedbed hosts check`: what each host of a Ray cluster has, and what it lacks for a run."""
