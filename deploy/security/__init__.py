"""Access control of a run's listeners, tested by clients without a token ("strangers")."""
