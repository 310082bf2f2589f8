"""The software inside a node: the agent, its DataNode, its warm process and the attempts forked from it."""
