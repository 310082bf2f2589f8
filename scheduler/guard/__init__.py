"""The guard between the core and a user's policy: read-only proxies, checked answers, time limits."""
