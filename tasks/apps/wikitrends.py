"""Adds up how often each article was visited, from hourly logs of page views as Wikimedia publishes them.

Left out: the logs are not compressed here, so that a map's output is not larger than its input.
"""

from __future__ import annotations

from schedbed.tasks.apps.app import App, Parameter
from schedbed.tasks.apps.counting import KeyCounts, reduce_counts
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.spill_formats import CountLines

DIGITS_MAX = 18


class ViewCounts(KeyCounts):
    """Adds up the views of each article, as a map's collector; `project` empty takes all of them."""

    def __init__(self, reduces: int, project: str) -> None:
        super().__init__(reduces)
        self._project = project.encode()

    def feed(self, chunk: bytes) -> None:
        """Take the lines `project title views bytes` of a chunk; real logs have others in them, which do not count."""
        counts, wanted = self.counts, self._project
        for line in chunk.split(b"\n"):
            fields = line.split()
            if len(fields) == 4 and (not wanted or fields[0] == wanted):
                project, title, views, _ = fields
                if views.isdigit() and len(views) <= DIGITS_MAX:
                    counts[b"%b %b" % (project, title)] += int(views)


def _map(task: MapTask) -> None:
    task.collect("text", ViewCounts(task.spec.reduces, task.params["project"]), CountLines())


APP = App(
    name="wikitrends",
    paper="verma2011",
    summary="adds up the views of each article in lines project title views bytes (others are skipped); "
    "output lines project title<TAB>views, sorted within a part",
    input="views",
    reduces="needed",
    run_map=_map,
    run_reduce=reduce_counts,
    parameters=(Parameter("project", "", "", "count this project only, such as en; empty for all"),),
)
