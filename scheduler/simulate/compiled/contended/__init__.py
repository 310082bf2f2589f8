"""The compiled twins of the contention model (`cluster.virtual.fluid`), for attempts that all succeed."""
