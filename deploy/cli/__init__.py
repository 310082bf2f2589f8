"""The subcommands of the program `schedbed`."""
