"""Everything around the scheduler: the command line, scenarios, live and simulated runs, and reports."""
