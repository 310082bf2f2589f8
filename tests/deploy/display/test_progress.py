"""Tests the plain progress lines of a simulation."""

from __future__ import annotations

from io import StringIO

from schedbed.deploy.display.progress import Lines


def test_a_line_every_ten_seconds_with_the_present_rate_and_the_time_left() -> None:
    out, clock_s = StringIO(), [0.0]
    lines = Lines(10_000, out, clock=lambda: clock_s[0])
    run = lines.begin("fifo")
    for clock_s[0], tasks in ((9.0, 50), (60.0, 100), (65.0, 900), (80.0, 2_100)):
        run.show(2.0 * clock_s[0], tasks)
    clock_s[0] = 100.0
    run.end(300.0, 10_000)
    first, second, last = out.getvalue().splitlines()
    assert first.startswith("fifo: at 120.0 s, 100 of 10,000 tasks, 2 tasks/s")
    assert second.endswith("2,100 of 10,000 tasks, 100 tasks/s, about 1m19s left")
    assert last == "fifo: at 300.0 s, 10,000 of 10,000 tasks, 100.0 s, 100 tasks/s"
