"""Applications that a user provides with a scenario, as a class in a file or as streaming commands."""
