"""The parts of the page `report.html`: sentences, tables, data, templates, style sheet and scripts."""
