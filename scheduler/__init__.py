"""The scheduler: its core, the policies, the JobTracker, and the tables with the history of a run."""
