"""Applications that scenarios bring with them."""
