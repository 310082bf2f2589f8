"""The zygote of a node, a process with all modules imported, and its forks, which become attempts."""
