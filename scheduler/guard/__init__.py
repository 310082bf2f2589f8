"""What stands between the core and a policy that a user wrote: read-only faces, checked answers, bounded time."""
