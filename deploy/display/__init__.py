"""The progress display on the terminal during live runs and simulations."""
