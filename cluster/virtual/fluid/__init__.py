"""Attempts that share CPU, disk and network max-min fair, in virtual time."""
