"""What a word is; `word_pairs.py` imports this file, so it travels with it."""


def words_of(line):
    """Return the words of a line in lower case."""
    return line.lower().split()
