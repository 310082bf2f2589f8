"""Keys of a scenario file that stand by themselves: their models, and what they are resolved to."""
