"""The software inside a node: the agent with its DataNode, and the process from which attempts are forked."""
