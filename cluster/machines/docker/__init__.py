"""Nodes in Docker containers: the engine, the node image, the network and the machine."""
