"""The package of everything around the scheduler: command line, scenarios, live and simulated runs, results,
reports.
"""
