"""What listens for a run and who may speak with it, looked at as a stranger would."""
