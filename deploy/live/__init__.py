"""Live runs: Ray, actors, hosts, sessions and injected faults."""
