"""How a person uses it: the command line, scenarios, launching, results and reports."""
