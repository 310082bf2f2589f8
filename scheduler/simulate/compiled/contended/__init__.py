"""The compiled version of the contention model `cluster.virtual.fluid`, for runs in which all attempts
succeed."""
