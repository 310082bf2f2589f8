"""A stretch that rises while something else takes the host's CPU."""
