"""The picture of a live run on a terminal, drawn with rich: jobs, nodes, and recent decisions."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from schedbed.deploy.display.display import (
    ENDED,
    REFRESH_S,
    Display,
    PlainLines,
    Status,
    run_time,
    title,
    totals,
)

BAR = 24
SMALL_BAR = 8
NODES_MAX = 16
RECENT_MAX = 6
OTHER_LINES = 9  # Lines for titles, column heads and gaps.
ANSWER_STYLES = {"launch": "green", "split": "green", "kill": "red", "reject": "yellow"}


class Picture:
    """A picture redrawn at most every REFRESH_S seconds; an ended run leaves one summary line."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._drawn_s = 0.0
        self._status: Status | None = None
        self._run: object = None

    def __enter__(self) -> Picture:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_line()
        self._live.__exit__(kind, error, trace)

    def stage(self, doing: str) -> None:
        """Implement `Display.stage`, in place of the picture."""
        self._leave_line()
        self._live.update(Text(f"{doing} ...", style="dim"), refresh=True)

    def update(self, status: Status) -> None:
        """Draw the status, unless a picture was drawn less than REFRESH_S seconds ago."""
        run = (status.get("policy"), status.get("repeat"))
        if run != self._run:
            self._leave_line()
        self._run, self._status = run, status
        now_s = time.monotonic()
        if now_s - self._drawn_s >= REFRESH_S:
            self._drawn_s = now_s
            self._live.update(draw(status, self._console.size.height), refresh=True)

    def _leave_line(self) -> None:
        """Print a line for the last status, if any, and forget it."""
        if self._status is not None:
            line = f"{title(self._status)}: {run_time(self._status).strip()}, {totals(self._status)}"
            self._live.console.print(Text(line, style="dim"))
            self._status = None


def draw(status: Status, height: int) -> RenderableType:
    """Return a status's picture for `height` lines, preferring jobs that have not ended."""
    nodes = min(len(status["nodes"]), NODES_MAX)
    jobs = max(3, height - nodes - min(len(status["recent"]), RECENT_MAX) - OTHER_LINES)
    head = Text.assemble(
        (title(status), "bold"), "   ", run_time(status).strip(), "   ", (totals(status), "dim")
    )
    return Group(
        Rule(style="dim"),
        head,
        _jobs(status["jobs"], jobs),
        _nodes(status["nodes"]),
        _recent(status["recent"]),
    )


def _jobs(jobs: Sequence[Mapping[str, Any]], limit: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("job", "", "user", "maps", "", "reduces", "", "state"):
        # On narrow terminals, names and states are cut first; ids are never cut.
        table.add_column(name, no_wrap=name not in ("", "user", "state"), overflow="ellipsis")
    for job in chosen(jobs, limit):
        table.add_row(
            Text(job["job"]),
            _cut(str(job["name"])[:24]),
            _cut(str(job["user"])[:12]),
            bar(job["maps_done"], job["maps_running"], job["maps"], BAR),
            _cut(f"{job['maps_done']}/{job['maps']}", style="dim"),
            bar(job["reduces_done"], job["reduces_running"], job["reduces"], BAR // 2),
            _cut(f"{job['reduces_done']}/{job['reduces']}", style="dim"),
            _state(job),
        )
    if len(jobs) > limit:
        table.add_row(Text(f"and {len(jobs) - limit} more", style="dim"))
    return table


def _cut(text: str, style: str = "") -> Text:
    """Return one line, with an ellipsis in a narrow column."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def chosen(jobs: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Return up to `limit` jobs in order: those that have not ended, then the last submitted."""
    ranks = {
        id(job): (job["state"] in ENDED, -i if job["state"] in ENDED else i) for i, job in enumerate(jobs)
    }
    best = sorted(jobs, key=lambda job: ranks[id(job)])[:limit]
    kept = {id(job) for job in best}
    return [job for job in jobs if id(job) in kept]


def bar(done: int, running: int, total: int, width: int) -> Text:
    """Return a bar for `total` tasks: done solid, running shaded, the rest dotted."""
    if not total:
        return Text("")
    full = width * done // total
    part = min(width - full, -(-width * running // total))
    return Text.assemble(("█" * full, "green"), ("▒" * part, "cyan"), ("·" * (width - full - part), "dim"))


def _state(job: Mapping[str, Any]) -> Text:
    if job["state"] == "failed":
        return _cut(f"failed: {job['reason']}", style="bold red")
    if job["finish_s"] is not None:
        late = job["deadline_s"] is not None and job["finish_s"] > job["deadline_s"]
        text = f"{job['state']} after {job['finish_s'] - job['submit_s']:.1f} s" + (", late" if late else "")
        return _cut(text, style="yellow" if late else "green")
    return _cut(str(job["state"]), style="cyan" if job["maps_running"] + job["reduces_running"] else "dim")


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("node", "rack", "CPU", "disk", "network", "memory", "running"):
        table.add_column(name, no_wrap=name not in ("rack", "running"), overflow="ellipsis")
    for node in nodes[:NODES_MAX]:
        if node["state"] != "alive":
            table.add_row(node["node"], node["rack"], Text(str(node["state"]), style="bold red"))
            continue
        uses = [_use(node[key]) for key in ("cpu_util", "disk_util", "net_util")]
        memory = f"{node['memory_bytes'] / 2**20:.0f} MiB"
        running = _cut(" ".join(_short(attempt) for attempt in node["running"]), style="cyan")
        table.add_row(node["node"], _cut(node["rack"]), *uses, memory, running)
    if len(nodes) > NODES_MAX:
        table.add_row(Text(f"and {len(nodes) - NODES_MAX} more", style="dim"))
    return table


def _use(share: float) -> Text:
    full = min(SMALL_BAR, round(SMALL_BAR * share))
    shade = "red" if share > 1.05 else "yellow" if share > 0.9 else "blue"
    return Text.assemble(("■" * full, shade), ("·" * (SMALL_BAR - full), "dim"), f" {share:4.0%}")


def _short(attempt: str) -> str:
    """Return `1m3` for `job_0001_m_000003_0`, `1m3'1` for its second attempt; other ids unchanged."""
    parts = attempt.split("_")
    if len(parts) != 5 or not (parts[1].isdigit() and parts[3].isdigit()):
        return attempt
    return f"{int(parts[1])}{parts[2]}{int(parts[3])}" + (f"'{parts[4]}" if parts[4] != "0" else "")


def _recent(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in ("time", "answer", "task", "node", "reason"):
        table.add_column(name, no_wrap=name != "reason")
    for row in rows[-RECENT_MAX:]:
        table.add_row(
            Text(f"{row['t']:.1f} s", style="dim"),
            Text(str(row["answer"]), style=ANSWER_STYLES.get(row["answer"], "")),
            Text(str(row["task"] or row["job"])),
            Text(f"on {row['node']}"),
            Text(str(row["reason"] or ""), style="dim"),
        )
    return table


# Selection of the display for a live run: a picture that is redrawn on a terminal, or plain lines.


def make_display(*, live: bool = True, out: TextIO | None = None) -> Display:
    """Return a picture if `live` on a terminal, otherwise plain lines."""
    stream = out or sys.stdout
    if live and stream.isatty():
        return Picture(stream)
    return PlainLines(stream)
