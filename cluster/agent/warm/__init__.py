"""The warm process of a node, and the forks of it that become attempts."""
