"""Weighs each word of each page by TF-IDF, with the formula of Mahout and Lucene.

sqrt(tf) * (1 + ln(pages / (df + 1))): tf is how often the word is in the page, df in how many pages it is. Mahout takes
several jobs; here the maps tell every reduce how many pages they saw. Left out: the dictionary, pruning, normalising.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from schedbed.tasks.apps.app import App
from schedbed.tasks.apps.counting import KeyCounts, merged_counts, write_lines
from schedbed.tasks.apps.pages import pages
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines

PAGES_KEY = b""  # comes before all words


class TermCounts(KeyCounts):
    """Counts words by page, as a map's collector; a word's pages meet in one reduce, the number of pages in all."""

    def __init__(self, reduces: int) -> None:
        super().__init__(reduces)
        self._pages = 0

    def group(self, key: bytes) -> bytes:
        """The word."""
        return key.partition(b"\t")[0]

    def feed(self, chunk: bytes) -> None:
        """Take the pages of a chunk of whole lines."""
        counts = self.counts
        for title, _, text in pages(chunk):
            self._pages += 1
            for word, count in Counter(text.split()).items():
                counts[b"%b\t%b" % (word, title)] += count

    def drain(self) -> list[Iterable[Buffer]]:
        """Sorted lines for each partition, the number of pages first."""
        seen, self._pages = b"%b\t%d\n" % (PAGES_KEY, self._pages), 0
        return [_chained(seen, part) for part in super().drain()]


def _chained(first: Buffer, others: Iterable[Buffer]) -> Iterator[Buffer]:
    yield first
    yield from others


def weight(count: int, found_in: int, all_pages: int) -> float:
    """TF-IDF of a word that is `count` times in a page and in `found_in` of all pages."""
    return math.sqrt(count) * (1 + math.log(all_pages / (found_in + 1)))


def _map(task: MapTask) -> None:
    task.collect("text", TermCounts(task.spec.reduces), CountLines())


def _weighed(counts: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
    all_pages = next(counts, (PAGES_KEY, 0))[1]
    for _, group in groupby(counts, key=lambda entry: entry[0].partition(b"\t")[0]):
        entries = list(group)
        for key, count in entries:
            yield b"%b\t%d\t%.6f" % (key, count, weight(count, len(entries), all_pages))


def _reduce(task: ReduceTask) -> None:
    write_lines(task, _weighed(merged_counts(task)))


APP = App(
    name="tfidf",
    paper="verma2011",
    summary="weighs the words of pages title<TAB>label<TAB>text (titles differ) by TF-IDF; output lines "
    "word<TAB>title<TAB>count<TAB>weight, sorted by word and title within a part",
    input="documents",
    reduces="needed",
    run_map=_map,
    run_reduce=_reduce,
)
