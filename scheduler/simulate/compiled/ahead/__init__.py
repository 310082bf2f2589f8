"""Compilation of the loop before it is needed."""
