"""The guard between the core and a user's policy: read-only faces, checked answers, bounded time."""
