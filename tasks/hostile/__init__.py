"""Programs that try to exceed their limits. `schedbed doctor --hostile` runs them to test that limits hold
for any code."""
