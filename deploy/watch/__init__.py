"""The live page: a running run, in a browser on this host."""
