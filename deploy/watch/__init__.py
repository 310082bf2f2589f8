"""The live page: a run as it goes on, in a browser on this host."""
