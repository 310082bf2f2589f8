"""A simulator loop compiled by numba. It runs the common setups much faster than the Python classes do.

The module `covers` lists the conditions for its use. The loop writes the same rows of output tables as the
classes in `scheduler.simulate`.
"""
