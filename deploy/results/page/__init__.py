"""The parts of `report.html`: what it says and draws, its templates, its style and its script."""
