"""The sockets between the processes of a live cluster: framed, behind a token, with typed values and no pickles."""
