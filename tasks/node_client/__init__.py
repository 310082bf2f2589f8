"""The services of a node to its attempts: files, map outputs, the disk budget."""
