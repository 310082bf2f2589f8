"""Whether what the text applications wrote is right: each is worked out again from the input, line by line."""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from schedbed.tasks.checks.part_files import Parts, Pieces, Ran, difference, keyed, lines, shown


def check_grep(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Each line's matches are counted again."""
    regex, group = re.compile(str(ran.params["pattern"]).encode()), ran.params["group"]
    wanted = Counter(
        match[group]
        for line in lines(text)
        for match in regex.finditer(line.removesuffix(b"\r"))
        if match[group]
    )
    return difference(wanted, keyed(parts))


def check_etl(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """The rows of all documents, read by an XML parser, are the lines of the text in order."""
    wanted = lines(text)
    number = 0
    for cells in _rows(parts):
        line = next(wanted, None)
        if line is None:
            return f"more rows than the {number} lines of the text"
        expected = [_xml_text(field) for field in line.decode(errors="replace").split("\t")]
        if cells != expected:
            return f"row {number} is {cells!r:.80}, expected {expected!r:.80}"
        number += 1
    if (line := next(wanted, None)) is not None:
        return f"{number} rows only, {shown(line)} is missing"
    return None


def _rows(parts: Parts) -> Iterator[list[str]]:
    for pieces in parts:
        parser = ElementTree.XMLPullParser(("end",))
        for piece in pieces:
            parser.feed(bytes(piece))
            yield from _ended(parser)
        parser.close()
        yield from _ended(parser)


def _ended(parser: ElementTree.XMLPullParser) -> Iterator[list[str]]:
    for event in parser.read_events():
        element = event[-1]
        if isinstance(element, ElementTree.Element) and element.tag == "row":
            yield [cell.text or "" for cell in element]
            element.clear()


def _xml_text(field: str) -> str:
    allowed = ("\r\t\n", "\ufffe\uffff")
    return "".join("\ufffd" if (c < " " and c not in allowed[0]) or c in allowed[1] else c for c in field)


def check_bayes(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Pages and weights are added up again, by label and word."""
    wanted: dict[bytes, int] = defaultdict(int)
    for line in lines(text):
        if not line.strip():
            continue
        _, label, body = line.split(b"\t", 2)
        wanted[b"label\t" + label] += 1
        words = Counter(body.split())
        norm = math.sqrt(sum(count**2 for count in words.values()))
        for word, count in words.items():
            wanted[b"\t".join((b"pages", label, word))] += 1
            wanted[b"\t".join((b"weight", label, word))] += round(1_000_000 * math.log1p(count) / norm)
    return difference(wanted, keyed(parts))


def check_tfidf(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Every word of every page is there once with its count, and its weight follows from the counts."""
    all_pages, entries, checksum = 0, 0, 0
    found_in: Counter[bytes] = Counter()
    for line in lines(text):
        if not line.strip():
            continue
        title, _, body = line.split(b"\t", 2)
        all_pages += 1
        for word, count in Counter(body.split()).items():
            found_in[word] += 1
            entries += 1
            checksum += zlib.crc32(b"%b\t%b\t%d" % (word, title, count))
    for number, pieces in enumerate(parts):
        for line in lines(pieces):
            entry, _, weight = line.rpartition(b"\t")
            word, count = entry.split(b"\t")[0], int(entry.split(b"\t")[-1])
            if word not in found_in:
                return f"part {number}: {shown(word)} is no word of the input"
            expected = math.sqrt(count) * (math.log(all_pages / (found_in[word] + 1)) + 1)
            if abs(float(weight) - expected) > 1e-6:
                return f"part {number}: {shown(line)}, expected the weight {expected:.6f}"
            entries -= 1
            checksum -= zlib.crc32(entry)
    if entries or checksum:
        return f"the counts by word and page are not the input's ({entries} of them missing)"
    return None


def check_wikitrends(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Views are added up again."""
    project = ran.params["project"].encode()
    wanted: dict[bytes, int] = defaultdict(int)
    for line in lines(text):
        found = re.fullmatch(rb"\s*(\S+)\s+(\S+)\s+([0-9]{1,18})\s+\S+\s*", line)
        if found and project in (b"", found[1]):
            wanted[found[1] + b" " + found[2]] += int(found[3])
    return difference(wanted, keyed(parts))


def check_twitter(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Links that are not returned are counted again, as hashes of both ends in two sorted lists."""
    directions: tuple[list[bytes], list[bytes]] = ([], [])
    for line in lines(text):
        ends = line.split()
        if len(ends) == 2 and ends[0] != ends[1]:
            pair = b"\t".join(sorted(ends))
            directions[ends[0] > ends[1]].append(_hash64(pair))
    up, down = (np.unique(np.frombuffer(b"".join(side), dtype="<u8")) for side in directions)
    mutual = len(np.intersect1d(up, down, assume_unique=True))
    wanted = {b"asymmetric": len(up) + len(down) - 2 * mutual, b"mutual": mutual}
    found: Counter[bytes] = Counter(dict.fromkeys(wanted, 0))
    for pieces in parts:
        found.update(keyed([pieces]))
    return difference(wanted, found)


def _hash64(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()
