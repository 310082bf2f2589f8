"""The available policies with their parameters, and construction of a policy from a SPEC.

A SPEC is a text or mapping with a policy's name and parameters, such as `delay:node_wait=5s`.
"""
