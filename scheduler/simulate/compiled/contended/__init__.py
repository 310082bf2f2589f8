"""The compiled twins of the fluid model (`cluster.virtual.fluid`)."""
