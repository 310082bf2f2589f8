"""The emulated cluster: nodes, machines, messages, trackers and the block store."""
