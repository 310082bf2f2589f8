"""The simulator: runs the scheduler core and the policies in virtual time. `simulation.Simulation` simulates
a `setup.Setup`."""
