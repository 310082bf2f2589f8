"""The contention model `cluster.virtual.fluid`, compiled by numba, for simulations in which all attempts
succeed.
"""
