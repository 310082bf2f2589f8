"""What this host can enforce, and how much of their declared resources nodes get."""
