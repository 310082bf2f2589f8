"""The limits that this host can enforce, and the share of their declared resources that nodes get."""
