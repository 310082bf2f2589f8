"""The zygote of a node: a process that has imported all modules and is forked for each attempt."""
