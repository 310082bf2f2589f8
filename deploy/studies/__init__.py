"""Studies that need several runs: the commands `whatif`, `validate`, `profile` and `policy check`."""
