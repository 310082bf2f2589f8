"""Checks of what jobs wrote, each worked out in another way than the job did."""
