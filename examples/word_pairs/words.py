"""The definition of a word. schedbed sends the file to the nodes with `word_pairs.py`, which imports it."""


def words_of(line):
    """Return the words of a line in lower case."""
    return line.lower().split()
