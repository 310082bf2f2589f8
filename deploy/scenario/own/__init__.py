"""Applications that a user provides with a scenario."""
