"""The scheduler core and the policies in virtual time: `simulation.Simulation` simulates a `setup.Setup`."""
