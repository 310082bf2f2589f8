"""The warm process of a node, and how its forks become attempts."""
