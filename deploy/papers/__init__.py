"""The papers' experiments run again: each paper a folder with its values (paper.yaml) and its experiments."""
