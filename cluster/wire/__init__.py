"""Socket connections between the processes of a live cluster: framed JSON messages and a token."""
