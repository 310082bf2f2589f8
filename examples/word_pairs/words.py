"""A function that splits a line into words.

`word_pairs.py` imports this module, so schedbed sends both files to nodes.
"""


def words_of(line):
    """Return a list of the words of a line, in lower case."""
    return line.lower().split()
