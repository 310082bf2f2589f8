"""The parts of `report.html`: its sentences, tables and data, its templates, its style and its script."""
