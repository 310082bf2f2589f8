"""Compiled choice of nodes for the replicas of many blocks. It mirrors `cluster.blocks.placement`."""
