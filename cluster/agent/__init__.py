"""What runs inside a node: the agent, its DataNode, its warm process and the attempts it forks."""
