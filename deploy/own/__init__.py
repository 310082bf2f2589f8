"""A user's own applications and policies in a scenario; `deploy.scenario.own_code` finds what this package declares."""
