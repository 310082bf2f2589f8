"""The available policies with their parameters, and construction of a policy from a SPEC.

A SPEC is the text or mapping that names a policy, such as `delay:node_wait=5s`.
"""
