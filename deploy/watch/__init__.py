"""The live page: a run in progress, shown in a browser on this host."""
