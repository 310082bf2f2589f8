"""Clusters that stay up: the service, its API and its clients."""
