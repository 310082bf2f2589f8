"""A stretch that rises while other processes take the host's CPU."""
