"""Access control of the sockets on which a run listens, tested by clients without a token ("strangers")."""
