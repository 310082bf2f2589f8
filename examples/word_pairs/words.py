"""The definition of a word. `word_pairs.py` imports the file, so schedbed sends both files to the nodes."""


def words_of(line):
    """Return the words of a line in lower case."""
    return line.lower().split()
