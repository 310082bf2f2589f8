"""Generated input data: text by Zipf's law, teragen's 100-byte records, and pages.

Pages are lines `title<TAB>label<TAB>text`, with words that depend on the label. An application's own kind
(`tasks.appkit.app.App.generate`) is made of the same words and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from schedbed.tasks.chance import array_chance, chance
from schedbed.tasks.readers import RECORD_BYTES
from schedbed.tasks.spill_formats import KEY_BYTES

PIECE_BYTES = 4 * 2**20
LINE_BYTES = 80
WORDS = 20_000
ZIPF_EXPONENT = 1.0
SLOTS = 1 << 20  # Size of the table that maps uniform random numbers to words.
LABELS = tuple(b"arts biology chemistry economics geography history law mathematics music physics".split())
LABEL_WORDS = 200  # Number of most frequent words, which all labels share.
DOCUMENT_WORDS = 300  # Mean number of words.
LETTERS = b"etaoinshrdlucmwfgypbvkjxqz"

Numbers = npt.NDArray[np.int32]


def text(size: int, seed: int) -> Iterator[bytes]:
    """Yield exactly `size` bytes of text lines, whose words follow Zipf's law."""
    table, words = zipf_table(WORDS), Vocabulary(vocabulary())
    for number, wanted in enumerate(piece_sizes(size, PIECE_BYTES)):
        picks, ends = words.draw(table, array_chance(seed, "text", number), wanted)
        separators = np.full(len(picks), ord(" "), dtype=np.uint8)
        # The last word of a line is the word that crosses a multiple of 80 bytes.
        lines = ends // LINE_BYTES
        separators[np.flatnonzero(lines[1:] != lines[:-1]) + 1] = ord("\n")
        yield words.join(picks, separators)[: wanted - 1] + b"\n"


def _records(size: int, seed: int) -> Iterator[bytes]:
    return records(max(1, size // RECORD_BYTES), 0, seed)


def records(count: int, first: int, seed: int) -> Iterator[bytes]:
    """Yield `count` 100-byte records, numbered from `first` on, in pieces."""
    for number, rows in enumerate(piece_sizes(count, PIECE_BYTES // RECORD_BYTES)):
        yield _record_rows(first, rows, array_chance(seed, "records", number))
        first += rows


def _record_rows(first: int, count: int, rng: np.random.Generator) -> bytes:
    """Return teragen's records: 10 key bytes, 00 11, the number in 32 hex digits, 88 99 AA BB, filler, CC DD EE FF."""
    rows = np.empty((count, RECORD_BYTES), dtype=np.uint8)
    rows[:, :KEY_BYTES] = np.frombuffer(rng.bytes(count * KEY_BYTES), dtype=np.uint8).reshape(
        count, KEY_BYTES
    )
    rows[:, 10:12] = (0x00, 0x11)
    rows[:, 12:44] = ord("0")
    numbers = np.arange(first, first + count, dtype=np.int64)
    digits = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
    for place in range(12):
        rows[:, 43 - place] = digits[(numbers >> (4 * place)) & 15]
    rows[:, 44:48] = (0x88, 0x99, 0xAA, 0xBB)
    rows[:, 48:96] = np.repeat(digits[rng.integers(0, 16, size=(count, 12), dtype=np.uint8)], 4, axis=1)
    rows[:, 96:] = (0xCC, 0xDD, 0xEE, 0xFF)
    return rows.tobytes()


def _documents(size: int, seed: int) -> Iterator[bytes]:
    table, words = zipf_table(WORDS), Vocabulary(vocabulary())
    title = 0
    for number, wanted in enumerate(piece_sizes(size, PIECE_BYTES)):
        rng = array_chance(seed, "documents", number)
        picks, _ = words.draw(table, rng, wanted)
        sigma = 0.8  # Parameter of the lognormal distribution of the number of words.
        sizes = rng.lognormal(-(sigma**2) / 2, sigma, size=2 + 4 * len(picks) // DOCUMENT_WORDS)
        starts = np.cumsum(np.maximum(1, sizes * DOCUMENT_WORDS).astype(np.int64))
        starts = np.r_[0, starts[starts < len(picks)]]
        labels = rng.integers(0, len(LABELS), size=len(starts))
        # Each label has its own words, with the same frequencies.
        own = np.repeat(labels, np.diff(np.r_[starts, len(picks)])) * (WORDS // len(LABELS))
        shifted = (picks - LABEL_WORDS + own) % (WORDS - LABEL_WORDS) + LABEL_WORDS
        picks = np.where(picks < LABEL_WORDS, picks, shifted).astype(np.int32)
        text = words.join(picks, np.full(len(picks), ord(" "), dtype=np.uint8))
        cuts = np.r_[0, np.cumsum(words.lengths[picks])][np.r_[starts, len(picks)]].tolist()
        lines = []
        for label, low, high in zip(labels.tolist(), cuts, cuts[1:], strict=False):
            title += 1
            lines.append(b"Page_%d\t%b\t%b\n" % (title, LABELS[label], text[low : high - 1]))
        yield from whole_lines(lines, wanted, number == 0)


def whole_lines(lines: Iterable[bytes], wanted: int, one_at_least: bool) -> Iterator[bytes]:
    """Yield the first lines that fit in one piece, the first even if too long with `one_at_least`."""
    taken: list[bytes] = []
    for line in lines:
        wanted -= len(line)
        if wanted < 0 and (taken or not one_at_least):
            break
        taken.append(line)
    if taken:
        yield b"".join(taken)


SHARED_KINDS: dict[str, Callable[[int, int], Iterator[bytes]]] = {
    "text": text,
    "records": _records,
    "documents": _documents,
}


@cache
def vocabulary(count: int = WORDS) -> tuple[bytes, ...]:
    """Return words, most frequent first and short, the same in every run."""
    coin = chance(0, "vocabulary")
    weights = [0.88**rank for rank in range(len(LETTERS))]
    words: dict[bytes, None] = {}
    while len(words) < count:
        longest = 3 + int(9 * min(1.0, len(words) / 2000))
        words[bytes(coin.choices(LETTERS, weights, k=coin.randint(2, longest)))] = None
    return tuple(words)


def zipf_table(count: int) -> Numbers:
    """Return a table of `SLOTS` ranks, rank r in proportion to 1 / (r + 1), at least once."""
    weights = 1.0 / np.arange(1, count + 1) ** ZIPF_EXPONENT
    slots = np.maximum(1, np.floor(weights / weights.sum() * SLOTS)).astype(np.int64)
    slots[0] += SLOTS - slots.sum()
    return np.repeat(np.arange(count, dtype=np.int32), slots)


def piece_sizes(size: int, piece: int) -> Iterator[int]:
    """Yield the sizes of the pieces when `size` bytes are cut into pieces of at most `piece` bytes."""
    while size > 0:
        yield min(size, piece)
        size -= piece


class Vocabulary:
    """Words as rows padded with zero bytes, to select and join fast. `lengths` include a separator."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self.lengths = np.array([len(word) + 1 for word in words], dtype=np.int32)
        width = -(-int(self.lengths.max()) // 8) * 8
        padded = b"".join(word.ljust(width, b"\0") for word in words)
        self._rows = np.frombuffer(padded, dtype=np.uint8).reshape(len(words), width)

    def draw(self, table: Numbers, rng: np.random.Generator, wanted: int) -> tuple[Numbers, Numbers]:
        """Return random words' rows, an even number, and their ends in a text of at least `wanted` bytes."""
        mean = float(self.lengths[table[:: SLOTS // 8192]].mean())
        count = int(wanted / mean * 1.02) // 2 * 2 + 200
        while True:
            picks = table[rng.integers(0, SLOTS, size=count, dtype=np.int32)]
            ends = np.cumsum(self.lengths[picks], dtype=np.int32)
            if ends[-1] >= wanted:
                return picks, ends
            count += count // 16 * 2 + 2

    def join(self, picks: Numbers, separators: npt.NDArray[np.uint8]) -> bytes:
        """Return the words at the row indices `picks` as bytes, each followed by its separator."""
        rows = self._rows.take(picks, axis=0)
        rows[:, -1] = separators
        return rows.tobytes().translate(None, b"\0")
