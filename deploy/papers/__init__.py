"""The experiments that reproduce papers, a folder each, with the printed values in `paper.yaml`."""
