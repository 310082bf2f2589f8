"""The compiled version of the contention model in `cluster.virtual.fluid`. It covers runs in which all
attempts succeed."""
