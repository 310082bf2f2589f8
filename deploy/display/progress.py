"""The display during a simulation: a bar with tasks per second and the time left, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from schedbed.tasks.units import format_duration

LINE_EVERY_S = 10.0


class Progress(Protocol):
    """Shows the begin, the progress and the end of each run. `show` may be called at any rate."""

    def begin(self, label: str) -> None:
        """Start the display of a run."""
        ...

    def show(self, now_s: float, tasks: int) -> None:
        """Show the virtual time `now_s` and the number of ended attempts."""
        ...

    def end(self, now_s: float, tasks: int) -> None:
        """End the display of a run."""
        ...


@contextmanager
def make_progress(tasks: int, *, live: bool = True, out: TextIO | None = None) -> Iterator[Progress]:
    """Yield a bar if `out` (standard output) is a terminal and `live`, else plain lines. `tasks` is a run's number of
    tasks."""
    stream = out or sys.stdout
    if live and stream.isatty():
        bar = _Bar(tasks, stream)
        with bar.drawn:
            yield bar
    else:
        yield Lines(tasks, stream)


class Lines:
    """Prints a line every few seconds and at the end of each run."""

    def __init__(self, tasks: int, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._out, self._clock = tasks, out, clock
        self._label = ""
        self._began_s = self._last_s = clock()
        self._last_tasks = 0

    def begin(self, label: str) -> None:
        """Note the time of the begin."""
        self._label, self._last_tasks = label, 0
        self._began_s = self._last_s = self._clock()

    def show(self, now_s: float, tasks: int) -> None:
        """Print a line if the last one is some seconds ago. Its rate is that since the last line."""
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
        """Print a line with the speed of the run."""
        took_s = self._clock() - self._began_s
        self._say(now_s, tasks, f"{took_s:.1f} s, {tasks / max(1e-9, took_s):,.0f} tasks/s")

    def _say(self, now_s: float, tasks: int, how_fast: str) -> None:
        self._out.write(f"{self._label}: at {now_s:,.1f} s, {tasks:,} of {self._tasks:,} tasks, {how_fast}\n")
        self._out.flush()


class _Bar:
    """A bar for the current run. Bars of finished runs stay."""

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
        """Add a new bar."""
        self._began_s = time.monotonic()
        self._row = self.drawn.add_task(label, total=self._tasks, rate=0.0, now_s=0.0)

    def show(self, now_s: float, tasks: int) -> None:
        """Move the bar."""
        rate = tasks / max(1e-9, time.monotonic() - self._began_s)
        self.drawn.update(self._row, completed=min(tasks, self._tasks), rate=rate, now_s=now_s)

    def end(self, now_s: float, tasks: int) -> None:
        """Leave the bar in its last state."""
        self.show(now_s, tasks)
