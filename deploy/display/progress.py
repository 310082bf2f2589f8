"""The display during simulations: bars with tasks per second and the remaining time, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from schedbed.tasks.units import format_duration

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LINE_EVERY_S = 10.0


class RunProgress(Protocol):
    """The display of one simulation run."""

    def show(self, now_s: float, tasks: int) -> None:
        """Show virtual seconds and ended attempts. May be called at any rate."""
        ...

    def end(self, now_s: float, tasks: int) -> None:
        """End the display with the last values."""
        ...


class Progress(Protocol):
    """The display of several simulation runs, which may run in parallel."""

    def begin(self, label: str) -> RunProgress:
        """Start and return a run's display."""
        ...


@contextmanager
def make_progress(tasks: int, *, live: bool = True, out: TextIO | None = None) -> Iterator[Progress]:
    """Yield a display for runs of `tasks` tasks: bars if `live` on a terminal, otherwise plain lines."""
    stream = out or sys.stdout
    if live and stream.isatty():
        bars = _Bars(tasks, stream)
        with bars.drawn:
            yield bars
    else:
        yield Lines(tasks, stream)


class Lines:
    """A display of simulation runs as plain lines: one every few seconds, and one at the end of a run."""

    def __init__(self, tasks: int, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks, self._out, self._clock = tasks, out, clock

    def begin(self, label: str) -> RunLines:
        return RunLines(label, self._tasks, self._out, self._clock)


class RunLines:
    """The display of one simulation run as plain lines."""

    def __init__(self, label: str, tasks: int, out: TextIO, clock: Callable[[], float]) -> None:
        self._label, self._tasks, self._out, self._clock = label, tasks, out, clock
        self._began_s = self._last_s = clock()
        self._last_tasks = 0

    def show(self, now_s: float, tasks: int) -> None:
        """Print a line with the tasks per second since the last line, at most every LINE_EVERY_S seconds."""
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
        """Print the real duration and the mean tasks per second."""
        took_s = self._clock() - self._began_s
        self._say(now_s, tasks, f"{took_s:.1f} s, {tasks / max(1e-9, took_s):,.0f} tasks/s")

    def _say(self, now_s: float, tasks: int, how_fast: str) -> None:
        self._out.write(f"{self._label}: at {now_s:,.1f} s, {tasks:,} of {self._tasks:,} tasks, {how_fast}\n")
        self._out.flush()


class _Bars:
    """A display of simulation runs as progress bars. The bars of ended runs stay visible."""

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

    def begin(self, label: str) -> _Bar:
        return _Bar(self.drawn, self._tasks, label)


class _Bar:
    """The progress bar of one simulation run."""

    def __init__(self, drawn: RichProgress, tasks: int, label: str) -> None:
        self._drawn, self._tasks = drawn, tasks
        self._began_s = time.monotonic()
        self._row = drawn.add_task(label, total=tasks, rate=0.0, now_s=0.0)

    def show(self, now_s: float, tasks: int) -> None:
        rate = tasks / max(1e-9, time.monotonic() - self._began_s)
        self._drawn.update(self._row, completed=min(tasks, self._tasks), rate=rate, now_s=now_s)

    def end(self, now_s: float, tasks: int) -> None:
        """Stop the bar, which stays visible."""
        self.show(now_s, tasks)
        self._drawn.stop_task(self._row)
