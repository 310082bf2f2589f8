"""The parts of `report.html`: its text and drawings, its templates, its style and its script."""
