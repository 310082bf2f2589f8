"""What a person sees while a simulation goes on: a bar with tasks a second and the time left, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from schedbed.tasks.units import format_duration

LINE_EVERY_S = 10.0


class Progress(Protocol):
    """Told of each run's begin and end, and in between as often as the driver likes."""

    def begin(self, label: str) -> None:
        """A run begins."""
        ...

    def show(self, now_s: float, tasks: int) -> None:
        """Show that the run has come to the virtual time `now_s` and that `tasks` attempts have ended."""
        ...

    def end(self, now_s: float, tasks: int) -> None:
        """The run is over."""
        ...


@contextmanager
def make_progress(tasks: int, *, live: bool = True, out: TextIO | None = None) -> Iterator[Progress]:
    """A bar when `out` (standard output) is a terminal and `live`, else plain lines; `tasks` is how many a run has."""
    stream = out or sys.stdout
    if live and stream.isatty():
        bar = _Bar(tasks, stream)
        with bar.drawn:
            yield bar
    else:
        yield Lines(tasks, stream)


class Lines:
    """A line every few seconds and at the end of each run."""

    def __init__(self, tasks: int, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._out, self._clock = tasks, out, clock
        self._label = ""
        self._began_s = self._last_s = clock()
        self._last_tasks = 0

    def begin(self, label: str) -> None:
        """Note the time."""
        self._label, self._last_tasks = label, 0
        self._began_s = self._last_s = self._clock()

    def show(self, now_s: float, tasks: int) -> None:
        """A line when the last one is a while ago; its rate is of the time since then."""
        clock_s = self._clock()
        if clock_s - self._last_s < LINE_EVERY_S:
            return
        rate = max(1, tasks - self._last_tasks) / (clock_s - self._last_s)
        self._last_s, self._last_tasks = clock_s, tasks
        left = (
            f", about {format_duration(round((self._tasks - tasks) / rate))} left"
            if tasks < self._tasks
            else ""
        )
        self._say(now_s, tasks, f"{rate:,.0f} tasks/s{left}")

    def end(self, now_s: float, tasks: int) -> None:
        """A line that says how fast it was."""
        took_s = self._clock() - self._began_s
        self._say(now_s, tasks, f"{took_s:.1f} s, {tasks / max(1e-9, took_s):,.0f} tasks/s")

    def _say(self, now_s: float, tasks: int, how_fast: str) -> None:
        self._out.write(f"{self._label}: at {now_s:,.1f} s, {tasks:,} of {self._tasks:,} tasks, {how_fast}\n")
        self._out.flush()


class _Bar:
    """One bar for the present run; finished ones stay as lines."""

    def __init__(self, tasks: int, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._tasks = tasks
        self.drawn = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:,.0f} tasks/s"),
            TimeRemainingColumn(compact=True),
            TextColumn("at {task.fields[now_s]:,.0f} s", style="dim"),
            console=Console(file=out),
        )
        self._row = self.drawn.add_task("", visible=False)
        self._began_s = 0.0

    def begin(self, label: str) -> None:
        """A new bar."""
        self._began_s = time.monotonic()
        self._row = self.drawn.add_task(label, total=self._tasks, rate=0.0, now_s=0.0)

    def show(self, now_s: float, tasks: int) -> None:
        """Move the bar."""
        rate = tasks / max(1e-9, time.monotonic() - self._began_s)
        self.drawn.update(self._row, completed=min(tasks, self._tasks), rate=rate, now_s=now_s)

    def end(self, now_s: float, tasks: int) -> None:
        """Leaves the bar as it is."""
        self.show(now_s, tasks)
