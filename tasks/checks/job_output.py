"""Whether a job's output is right: sorted parts as teravalidate checks them, all else by working it out again."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import ParseError

from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.checks.number_apps import check_bbp, check_select, check_teragen
from schedbed.tasks.checks.part_files import Parts, Pieces, Ran, records, shown
from schedbed.tasks.checks.text_apps import (
    check_bayes,
    check_etl,
    check_grep,
    check_tfidf,
    check_twitter,
    check_wikitrends,
)
from schedbed.tasks.spill_formats import add_counts


@dataclass(frozen=True, slots=True)
class RecordSum:
    """How many records there are and the sum of their CRC-32: the same for the same records in any order."""

    records: int
    checksum: int


def record_sum(pieces: Iterable[Buffer]) -> RecordSum:
    """The sum over a file that comes in pieces; raises ValueError when it does not end with a whole record."""
    count = checksum = 0
    for record in records(pieces):
        count += 1
        checksum += zlib.crc32(record)
    return RecordSum(count, checksum)


def check_sorted(parts: Iterable[Iterable[Buffer]], expected: RecordSum) -> str | None:
    """What is wrong with the parts of a sorted file, in one line; None when they are right.

    Within and over the parts no record may be smaller than the one before; none may be lost, changed or doubled.
    """
    last = b""
    count = checksum = 0
    for number, pieces in enumerate(parts):
        try:
            for record in records(pieces):
                if record < last:
                    return f"part {number}: record {count} of the output is smaller than the one before it"
                last = record
                count += 1
                checksum += zlib.crc32(record)
        except ValueError as error:
            return f"part {number}: {error}"
    if count != expected.records:
        return f"{count} records in the output, {expected.records} in the input"
    if checksum != expected.checksum:
        return f"the checksum of the output's records is {checksum:x}, of the input's {expected.checksum:x}"
    return None


def check_wordcount(text: Iterable[Buffer], parts: Iterable[Iterable[Buffer]]) -> str | None:
    """What is wrong with a word count of that text, in one line; None when it is right."""
    wanted = count_words(text)
    found: dict[bytes, int] = {}
    for number, pieces in enumerate(parts):
        part = b"".join(pieces)
        try:
            counts = add_counts([part])
        except ValueError as error:
            return f"part {number}: {error}"
        words = [line.rpartition(b"\t")[0] for line in part.split(b"\n")[:-1]]
        if words != sorted(counts):
            return f"part {number}: its words are not sorted, or not each on one line"
        if doubled := min(found.keys() & counts.keys(), default=None):
            return f"part {number}: {shown(doubled)} is in an earlier part as well"
        found |= counts
    if wrong := min(
        (word for word in wanted.keys() | found if wanted[word] != found.get(word, 0)), default=None
    ):
        return f"{shown(wrong)} was counted {found.get(wrong, 0)} times, it is there {wanted[wrong]} times"
    return None


def check_output(app: str, ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """What is wrong with the output of an application in CHECKS, in one line; None when it is right."""
    try:
        return CHECKS[app](ran, data, parts)
    except (ValueError, ParseError) as error:
        return str(error)


def _check_wordcount(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    return check_wordcount(text, parts)


def _check_sort(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    return check_sorted(parts, record_sum(data))


CHECKS: Mapping[str, Callable[[Ran, Pieces, Parts], str | None]] = {
    "wordcount": _check_wordcount,
    "combine": _check_wordcount,
    "sort": _check_sort,
    "grep": check_grep,
    "bbp": check_bbp,
    "teragen": check_teragen,
    "etl": check_etl,
    "select": check_select,
    "bayes": check_bayes,
    "tfidf": check_tfidf,
    "wikitrends": check_wikitrends,
    "twitter": check_twitter,
}
"""Of applications: what is wrong with an output, given the job, its input's pieces (none without) and each part's.

They may raise ValueError or ParseError on an output that is not even of the right form; `check_output` does not.
"""


def count_words(text: Iterable[Buffer]) -> Counter[bytes]:
    """How often each word is in a text that comes in pieces."""
    counts: Counter[bytes] = Counter()
    rest = b""
    for piece in text:
        data = rest + bytes(piece)
        cut = max(data.rfind(space) for space in (b" ", b"\n", b"\t", b"\r", b"\x0b", b"\x0c")) + 1
        counts.update(data[:cut].split())
        rest = data[cut:]
    counts.update(rest.split())
    return counts
