"""Nodes in Docker containers: the Docker engine, the node image, the network and the machine."""
