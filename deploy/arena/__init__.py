"""The arena: simulations of every policy on every workload, paired by seed, with ranks, a page
and a fitness function.
"""
