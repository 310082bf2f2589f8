"""The plain case of a simulation as a compiled loop over arrays. Its rows equal those of the objects in
`scheduler.simulate`."""
