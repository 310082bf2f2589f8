"""Nodes that are containers: engine, image, network and the machine itself."""
