"""The pure scheduler core, the policies, the JobTracker and the history of a run."""
