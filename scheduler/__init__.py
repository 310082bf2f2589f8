"""Who runs, when and where: the pure core, the policies, the JobTracker and the history."""
