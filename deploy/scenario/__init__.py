"""Scenario files: read, checked and resolved."""
