"""Clusters that keep running between jobs: the service, its API and its clients."""
