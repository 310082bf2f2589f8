"""The arena: a contest that simulates every policy on every workload with the same seeds.

It ranks the policies, writes a page about them, and computes a policy's fitness for search programs.
"""
