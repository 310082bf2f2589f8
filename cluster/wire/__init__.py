"""Sockets between the processes of a live cluster: framed JSON messages, a token, and no pickles."""
