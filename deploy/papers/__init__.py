"""The papers' experiments: each paper is a folder with its values (paper.yaml) and its experiments."""
