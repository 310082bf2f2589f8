"""Mathematical models from the papers that policies use: task times, demands, utilities and plans."""
