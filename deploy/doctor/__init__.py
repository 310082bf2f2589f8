"""What this host can enforce, and what nodes get of what they were declared."""
