"""The command `schedbed doctor`: shows the limits that this host can enforce, and tests whether they hold."""
