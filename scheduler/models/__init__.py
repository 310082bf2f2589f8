"""Mathematical models from the papers, which policies use: task times, demands, utilities, plans."""
