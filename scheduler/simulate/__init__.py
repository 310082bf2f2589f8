"""The same core and policies in virtual time: `simulation.Simulation` plays what `setup.Setup` says."""
