"""Attempts that do not contend, in virtual time."""
