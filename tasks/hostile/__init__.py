"""Programs that try to exceed their limits. `schedbed doctor --hostile` runs them to test whether the
limits work for any code.
"""
