"""`schedbed fit`: a scenario from the history and the configuration files of a real cluster."""
