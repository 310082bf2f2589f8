"""Pure functions that compute times and counts from a run's tables. The module `metrics` combines them."""
