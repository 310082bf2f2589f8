"""A streaming job that finds, for each first letter, the length of the longest line.

The script is the mapper, the combiner and the reducer.
"""

import sys


def mapper(lines):
    """Print the first letter and the length of each nonempty line, separated by a tab."""
    for line in lines:
        text = line.rstrip("\n")
        if text:
            print(f"{text[0]}\t{len(text)}")


def reducer(lines):
    """Print the greatest value of each key. Lines with the same key must be adjacent."""
    last, longest = None, 0
    for line in lines:
        key, _, value = line.rstrip("\n").partition("\t")
        if key != last and last is not None:
            print(f"{last}\t{longest}")
        longest = max(longest, int(value)) if key == last else int(value)
        last = key
    if last is not None:
        print(f"{last}\t{longest}")


if __name__ == "__main__":
    {"map": mapper, "reduce": reducer}[sys.argv[1]](sys.stdin)
