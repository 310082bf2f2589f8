"""A simulator whose event loop is compiled by numba. It mirrors the Python classes of `scheduler.simulate`.

It is much faster than the Python classes and writes the same rows of output tables, but supports only the
common settings and policies. The module `covers` lists the conditions.
"""
