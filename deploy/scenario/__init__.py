"""Loading, checking and resolving of scenario files."""
