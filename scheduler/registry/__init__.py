"""The available policies, and construction of one from a SPEC, a text or mapping: `delay:node_wait=5s`."""
