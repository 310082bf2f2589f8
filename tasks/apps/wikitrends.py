"""Sums of the page views of each article, from hourly logs in Wikimedia's format, but not compressed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.appkit.counting import KeyCounts, reduce_counts
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, difference, keyed, lines_of
from schedbed.tasks.chance import array_chance, chance
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.spill_formats import CountLines
from schedbed.tasks.workloads.input_data import (
    PIECE_BYTES,
    SLOTS,
    piece_sizes,
    vocabulary,
    whole_lines,
    zipf_table,
)

DIGITS_MAX = 18

ARTICLES = 50_000
PROJECTS = tuple(b"en en en en en en de fr ja es".split())
VIEW_BYTES = 12_000  # Approximate number of bytes sent for a view.


class ViewCounts(KeyCounts):
    """A map's collector (the store of its output) that sums the page views of each article of one project.

    An empty `project` selects all projects.
    """

    def __init__(self, reduces: int, project: str) -> None:
        super().__init__(reduces)
        self._project = project.encode()

    def feed(self, chunk: bytes) -> None:
        """Add the views of lines `project title views bytes`, skipping malformed ones, which real logs have."""
        counts, wanted = self.counts, self._project
        for line in chunk.split(b"\n"):
            fields = line.split()
            if len(fields) == 4 and (not wanted or fields[0] == wanted):
                project, title, views, _ = fields
                if views.isdigit() and len(views) <= DIGITS_MAX:
                    counts[b"%b %b" % (project, title)] += int(views)


def views(size: int, seed: int) -> Iterator[bytes]:
    """Yield about `size` bytes of random hourly page counts, one line `project title views bytes` each."""
    table, words = zipf_table(ARTICLES), vocabulary()
    titles = [
        b"%b_%b" % (words[rank % 997].capitalize(), words[rank % len(words)].capitalize())
        for rank in range(ARTICLES)
    ]
    chance(seed, "views order").shuffle(titles)
    for number, wanted in enumerate(piece_sizes(size, PIECE_BYTES)):
        rng = array_chance(seed, "views", number)
        count = wanted // 20 + 20  # Enough lines, as few are shorter than 20 bytes.
        articles = table[rng.integers(0, SLOTS, size=count, dtype=np.int32)].tolist()
        projects = rng.integers(0, len(PROJECTS), size=count).tolist()
        views = np.ceil(rng.pareto(1.2, size=count) * 3 + 0.01).clip(max=10**7).astype(np.int64).tolist()
        lines = (
            b"%b %b %d %d\n" % (PROJECTS[project], titles[article], seen, seen * VIEW_BYTES)
            for project, article, seen in zip(projects, articles, views, strict=True)
        )
        yield from whole_lines(lines, wanted, number == 0)


def _map(task: MapTask) -> None:
    task.collect("text", ViewCounts(task.spec.reduces, task.params["project"]), CountLines())


def check_wikitrends(ran: Ran, text: Pieces, parts: Parts) -> str | None:
    """Check the output by summing again. Returns the first difference, or None."""
    project = ran.params["project"].encode()
    wanted: dict[bytes, int] = defaultdict(int)
    for line in lines_of(text):
        found = re.fullmatch(rb"\s*(\S+)\s+(\S+)\s+([0-9]{1,18})\s+\S+\s*", line)
        if found and project in (b"", found[1]):
            wanted[found[1] + b" " + found[2]] += int(found[3])
    return difference(wanted, keyed(parts))


APP = App(
    name="wikitrends",
    paper="verma2011",
    summary="adds up the views of each article in lines project title views bytes (others are skipped); "
    "output lines project title<TAB>views, sorted within a part",
    input="views",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
    parameters=(
        Parameter("project", "", "", "project whose views are counted, such as en; all projects if empty"),
    ),
    check=check_wikitrends,
    costs=AppCosts(
        map_start_s=0.0,
        map_cpu_s=3.856e-08,
        map_sort_s=6.183e-08,
        map_output=Law(25.77, 0.6723),
        map_records=0.04101,
        reduce_start_s=0.0,
        reduce_sort_s=3.177e-08,
        reduce_cpu_s=6.714e-09,
        output=Law(25.41, 0.6733),
        note="its own map and reduce code on 8 MiB of generated views, 2 reduces; the fastest of 3 on a 2-core VM",
    ),
    generate=views,
)
