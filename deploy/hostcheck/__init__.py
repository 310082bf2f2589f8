"""The command `schedbed hosts check`: examines each host of a Ray cluster, and lists what it lacks."""
