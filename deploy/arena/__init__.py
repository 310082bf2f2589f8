"""The arena: a contest of every policy on every workload with the same seeds, which ranks them and scores one."""
