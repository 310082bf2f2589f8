"""The scheduler: the pure core, the policies, the JobTracker, and the history (tables) of a run."""
