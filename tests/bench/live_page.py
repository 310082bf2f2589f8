"""Measure the CPU use of the live page at rest, and the times between frames in a browser under many events.

    python -m tests.bench.live_page [--repeats 3] [--seconds 20] [--nodes 24] [--events 10] [--out DIR]

The page's server runs in this process and receives a status every half second, as from a driver. At rest
nothing changes in the statuses, and one page is open. This process's CPU time is measured with and without
that page. Under load `--events` attempts end each second on each node, and headless Chromium notes the times
between frames.
"""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import suppress

import numpy as np

from tests.bench.figures import Figure, parser, publish, say
from tests.harness.browser import look
from tests.harness.busy_run import STATUS_S, BusyRun, fed

IDLE_MAX = 1.0  # percent of a core, beyond the loop without a page
FRAME_P99_MS = 50.0  # 20 frames a second

FRAMES = """
new Promise((done) => {
  const gaps = [];
  let last = null, until = 0;
  const frame = (at) => {
    if (last !== null) gaps.push(at - last);
    last = at;
    if (at < until) requestAnimationFrame(frame);
    else done(gaps);
  };
  setTimeout(() => {
    until = performance.now() + %d;
    requestAnimationFrame(frame);
  }, 3000);
})
"""
"""Waits until the page has settled, then collects the milliseconds between frames."""
DRAWN = (
    "[document.querySelectorAll('#nodes tbody tr').length, document.querySelectorAll('#decisions tr').length]"
)


def cpu_percent(seconds: float) -> float:
    """Return the CPU use of this process over the next `seconds`, in percent of a core."""
    before_s, began_s = time.process_time(), time.monotonic()
    time.sleep(seconds)
    return 100 * (time.process_time() - before_s) / (time.monotonic() - began_s)


def idle_percent(nodes: int, seconds: float) -> float:
    """Return the CPU use of this process while one idle page is open, in percent of a core.

    Also print the use without a page.
    """
    with fed(BusyRun(nodes, 0), idle=True) as url:
        alone = cpu_percent(seconds)
        host, _, query = url.removeprefix("http://").partition("/")
        reader = http.client.HTTPConnection(host, timeout=30)
        reader.request("GET", f"/events{query}")
        listener = threading.Thread(target=_read_all, args=(reader.getresponse(),), daemon=True)
        listener.start()
        time.sleep(1)
        with_page = cpu_percent(seconds)
        say(f"at rest: {alone:.2f}% without a page, {with_page:.2f}% with one that is read in this process")
    return with_page


def _read_all(answer: http.client.HTTPResponse) -> None:
    with suppress(http.client.IncompleteRead, ConnectionError):
        while answer.read1(1 << 16):
            pass


def frame_gaps_ms(nodes: int, events: int, seconds: float) -> tuple[np.ndarray, float]:
    """Return the milliseconds between frames under load, and the server's CPU use meanwhile in percent of a
    core.
    """
    with fed(BusyRun(nodes, events), idle=False) as url:
        before_s, began_s = time.process_time(), time.monotonic()
        gaps, (rows_shown, _) = look(url, 1280, [FRAMES % (1000 * seconds), DRAWN])
        used = 100 * (time.process_time() - before_s) / (time.monotonic() - began_s)
        if rows_shown != nodes:
            raise RuntimeError(f"the page shows {rows_shown} of {nodes} nodes")
    return np.array(gaps), used


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    options.add_argument("--nodes", type=int, default=24)
    options.add_argument("--events", type=int, default=10, help="a node and second")
    given = options.parse_args()
    idle = [idle_percent(given.nodes, given.seconds) for _ in range(given.repeats)]
    gaps: list[np.ndarray] = []
    used: list[float] = []
    for _ in range(given.repeats):
        times, server = frame_gaps_ms(given.nodes, given.events, given.seconds)
        say(
            f"frames: median {np.median(times):.1f} ms, p99 {np.percentile(times, 99):.1f} ms, server {server:.1f}%"
        )
        gaps.append(times)
        used.append(server)
    load = f"{given.nodes} nodes, {given.events} attempts a node and second"
    note = f"{given.nodes} nodes, a status every {STATUS_S:g} s in which only the time changes, one page open"
    publish(
        "live_page",
        "The live page",
        [
            Figure(name="idle page, percent of a core", values=idle, unit="%", high=IDLE_MAX, note=note),
            Figure(
                name="time between frames, median",
                values=[float(np.median(g)) for g in gaps],
                unit="ms",
                note=load,
            ),
            Figure(
                name="time between frames, p99",
                values=[float(np.percentile(g, 99)) for g in gaps],
                unit="ms",
                high=FRAME_P99_MS,
                note=load,
            ),
            Figure(name="server under that load, percent of a core", values=used, unit="%", note=load),
        ],
        given.out,
    )


if __name__ == "__main__":
    main()
