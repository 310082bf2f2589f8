"""A compiled loop over arrays that simulates the common setups (see `covers`) much faster than Python
objects.

The loop writes the same rows as the classes in `scheduler.simulate`.
"""
