"""Functions for times and counts over a run's rows, which `metrics` combines. All are pure."""
