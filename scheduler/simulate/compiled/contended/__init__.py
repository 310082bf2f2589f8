"""A compiled version of `cluster.virtual.fluid`, in which attempts share CPUs, disks and network links.

All attempts succeed.
"""
