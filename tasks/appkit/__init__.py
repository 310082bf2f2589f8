"""What applications are written against, and where they are found; the applications are in tasks/apps."""
