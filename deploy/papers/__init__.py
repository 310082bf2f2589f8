"""The experiments that reproduce papers. Each paper has a folder with its experiments and printed values.

The file `paper.yaml` in the folder contains the values.
"""
