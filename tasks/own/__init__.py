"""Applications that users write: a Python class, or commands that read and write lines (streaming)."""
