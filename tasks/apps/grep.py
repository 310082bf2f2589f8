"""Counts the matches of a regular expression, as the first job of Hadoop's grep example."""

from __future__ import annotations

import re
from collections.abc import Iterable

from schedbed.tasks.apps.app import App, Parameter
from schedbed.tasks.apps.counting import KeyCounts, reduce_counts
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.spill_formats import CountLines


class MatchCounts(KeyCounts):
    """Counts what the pattern's group matches, line by line, so that no match depends on how the text is cut."""

    def __init__(self, reduces: int, pattern: str, group: int) -> None:
        super().__init__(reduces)
        self._regex = compile_pattern(pattern)
        self._group = group

    def keys(self, text: bytes) -> Iterable[bytes]:
        """The matches in some whole lines; empty ones are none."""
        find, group = self._regex.finditer, self._group
        lines = text.removesuffix(b"\n").split(b"\n")
        return [match[group] for line in lines for match in find(line.removesuffix(b"\r")) if match[group]]


def compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """The regular expression over UTF-8 bytes; BadInput says what is wrong with it."""
    try:
        return re.compile(str(pattern).encode())
    except re.error as error:
        raise BadInput(f"grep: pattern {pattern!r} is no regular expression: {error}") from error


def _map(task: MapTask) -> None:
    collector = MatchCounts(task.spec.reduces, task.params["pattern"], task.params["group"])
    task.collect("text", collector, CountLines())


APP = App(
    name="grep",
    paper="lakshmi2019",
    summary="counts the matches of a regular expression; output lines match<TAB>count, sorted by match within a part",
    input="text",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
    parameters=(
        Parameter(
            "pattern", None, "regular expression", "what to look for, in each line by itself", required=True
        ),
        Parameter(
            "group", 0, "", "which group of the pattern is counted, 0 for the whole match; empty ones are not"
        ),
    ),
)
