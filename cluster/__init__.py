"""Where it runs: nodes, machines, messages, trackers and the block store."""
