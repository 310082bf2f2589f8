"""Socket connections between the processes of a live cluster, with a token and JSON messages in frames."""
