"""Numbers of claims by kind and verdict, and footnote letters for remarks on claims.

The rows that these functions receive are values of an experiment as in results.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, product
from math import isclose
from string import ascii_lowercase
from typing import Any

from schedbed.deploy.papers.paper_file import KINDS, Kind
from schedbed.deploy.papers.verdict import FAILS, HOLDS, OPEN

VERDICTS = (HOLDS, FAILS, OPEN)
"""The verdicts in the order in which counts are shown."""

Rows = Iterable[Mapping[str, Any]]
Counts = Mapping[Kind, Sequence[int]]


def counted(rows: Rows) -> Counts:
    """Return the numbers of claims that hold, do not hold and are undecided (open), for each kind of claim.

    The result is a dictionary from kind to a list of these three numbers, without the kinds that have no
    claims. The kind `outcome` comes first.
    """
    found = Counter((row["kind"], row["verdict"]) for row in rows if row["wanted"])
    counts: dict[Kind, Sequence[int]] = {
        kind: [found[kind, verdict] for verdict in VERDICTS] for kind in KINDS
    }
    return {kind: numbers for kind, numbers in counts.items() if any(numbers)}


def without_task(rows: Rows) -> Mapping[Kind, int]:
    """Return the number of claims that are checked without running a task, as a dictionary by kind of claim.

    Such a claim is, for example, checked with a formula.
    """
    return Counter(row["kind"] for row in rows if row["wanted"] and row["no_task"])


def remarks(row: Mapping[str, Any]) -> list[str]:
    """Return the remarks on a claim as sentences.

    A remark says what was chosen after the results were seen, or why all repeats gave the same value.
    """
    texts = (
        ("Chosen with results in view", row["chosen"]),
        ("Why all repeats agree", row["constant"] if agree(row["ci95"]) else ""),
    )
    return [f"{head}: {text.rstrip('.')}." for head, text in texts if text]


def agree(interval: Sequence[float] | None) -> bool:
    """Return whether a confidence interval has zero width, so that all repeats gave the same value."""
    return interval is not None and isclose(*interval, rel_tol=1e-9, abs_tol=1e-12)


def marks(rows: Rows) -> dict[str, str]:
    """Return a dictionary from remark to footnote letter, for all different remarks on the rows' claims.

    The letters a, b, ..., z, aa, ab, ... are assigned in the order in which the remarks first appear in the
    rows.
    """
    texts = dict.fromkeys(text for row in rows for text in remarks(row))
    letters = ("".join(each) for length in count(1) for each in product(ascii_lowercase, repeat=length))
    return dict(zip(texts, letters, strict=False))
