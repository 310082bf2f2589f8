"""Users' applications: a class of their own, or commands that read and write lines."""
