"""The user's side: command line, scenarios, launching, results and reports."""
