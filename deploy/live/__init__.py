"""Live runs: emulated nodes made of real processes, which Ray starts on one or more hosts."""
