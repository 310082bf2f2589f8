"""An application for schedbed, written as one class, that counts pairs of consecutive words."""

from collections import Counter
from itertools import pairwise

from words import words_of


class WordPairs:
    """An application that counts pairs of consecutive words on a line. Counts below `least` are left out."""

    def __init__(self, least=1):
        self.least = least

    def map(self, line):
        for first, second in pairwise(words_of(line)):
            yield f"{first} {second}", 1

    def combine(self, key, values):
        yield key, sum(values)

    def reduce(self, key, values):
        count = sum(values)
        if count >= self.least:
            yield key, count

    def partition(self, key, reduces):
        """Return the number of the reduce for a pair, chosen by the first letter of its first word."""
        return ord(key[0]) % reduces

    def check(self, lines, output):
        counts = Counter(pair for line in lines for pair in pairwise(words_of(line)))
        wanted = {f"{first} {second}": n for (first, second), n in counts.items() if n >= self.least}
        found = {key: int(value) for key, value in output}
        wrong = min((key for key in wanted.keys() | found if wanted.get(key) != found.get(key)), default=None)
        if wrong is None:
            return None
        return f"{wrong!r} was counted {found.get(wrong, 0)} times, expected {wanted.get(wrong, 0)}"
