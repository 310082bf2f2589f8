"""The loading of many input files into the simulated block store."""
