"""A simulator whose event loop is compiled by numba. It mirrors the Python classes of `scheduler.simulate`.

It writes the same rows much faster, but supports only common settings and policies (`covers`).
"""
