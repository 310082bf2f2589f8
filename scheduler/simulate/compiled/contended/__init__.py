"""A compiled version of `cluster.virtual.fluid`, in which attempts share resources, and all succeed."""
