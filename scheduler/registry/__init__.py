"""The available policies, their parameters, and the construction of a policy from a SPEC."""
