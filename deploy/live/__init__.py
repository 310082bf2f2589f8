"""Live runs: emulated nodes of real processes, placed on one or more hosts by Ray."""
