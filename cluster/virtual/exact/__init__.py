"""Attempts without contention, in virtual time."""
