"""Socket connections between the processes of a live cluster: JSON messages, TLS and a check of a token."""
