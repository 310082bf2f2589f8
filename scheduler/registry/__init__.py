"""Which policies there are, their parameters, and how a SPEC becomes a policy."""
