"""The software inside a node: the agent with its DataNode, and the zygote, from which attempts are forked."""
