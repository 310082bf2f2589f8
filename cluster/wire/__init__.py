"""Sockets between the processes of a live cluster: framed, token-protected, with typed values and no pickles."""
