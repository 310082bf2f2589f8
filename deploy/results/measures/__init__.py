"""Times and counts over a run's rows, as pure functions that `metrics` combines."""
