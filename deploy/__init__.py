"""The command line, scenarios, live and simulated runs, and reports: everything around the scheduler."""
