"""A made-up run for tests of the live page: any number of nodes and attempts, without a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from schedbed.deploy.watch.page_server import LivePage, serve_page
from tests.harness.tables import NODE, rows

TOKEN = "made-up"
STATUS_S = 0.5
JOBS = 12


class BusyRun:
    """Produces the rows and statuses that a driver would report every half second."""

    def __init__(self, nodes: int, events: int) -> None:
        self.specs = [replace(NODE, node=f"n{i + 1}", map_slots=4, reduce_slots=2) for i in range(nodes)]
        self._each = round(events * STATUS_S)
        self._numbers = count()
        self._running: dict[str, list[tuple[str, float]]] = {spec.node: [] for spec in self.specs}

    def feed(self, watch: LivePage, now_s: float) -> None:
        """End all running attempts, launch as many new ones, and report both to the page with a status."""
        ended: list[dict[str, Any]] = []
        launched: list[dict[str, Any]] = []
        for node, running in self._running.items():
            for attempt, since_s in running:
                more = {
                    "attempt": attempt,
                    "assigned": since_s,
                    "end": now_s,
                    "locality": "node",
                    "state": "succeeded",
                }
                ended.append({"node": node, "start": since_s, **more})
            tasks = [
                f"job_{n % JOBS:04d}_m_{n:06d}" for n in (next(self._numbers) for _ in range(self._each))
            ]
            running[:] = [(f"{task}_0", now_s) for task in tasks]
            launched += [
                {"t": now_s, "node": node, "answer": "launch", "task": task, "reason": "node-local"}
                for task in tasks
            ]
        watch.take_rows("attempts", rows("attempts", *ended))
        watch.take_rows("decisions", rows("decisions", *launched))
        watch.take_status(self.status(now_s))

    def status(self, now_s: float) -> dict[str, Any]:
        """Return a status with the structure of `scheduler.core.core`."""
        seen = next(self._numbers)
        done = {"maps": 10**6, "maps_done": seen, "maps_running": 20, "reduces": 1, "reduces_done": 0}
        job = {"state": "running", "user": "ana", "queue": "q", "reduces_running": 0, "reason": "", **done}
        jobs = [{"job": f"job_{n:04d}", "name": f"crunch-{n}", **job} for n in range(JOBS)]
        used = {"cpu_util": 0.8, "disk_util": 0.4, "net_util": 0.3, "memory_bytes": 2**28}
        nodes = [
            {
                "node": node,
                "rack": "a",
                "state": "alive",
                **used,
                "running": [attempt for attempt, _ in running],
            }
            for node, running in self._running.items()
        ]
        return {"now_s": now_s, "jobs": jobs, "nodes": nodes, "recent": []}


@contextmanager
def fed(run: BusyRun, *, idle: bool = False, watch: LivePage | None = None) -> Iterator[str]:
    """Serve the live page of a run, report to it from a thread, and yield its address.

    An idle run repeats the same status. `watch` is the page to use; by default a new one is made.
    """
    watch, over = watch or LivePage(), threading.Event()
    watch.begin(run.specs, {"policy": "fair", "repeat": 0, "of_policies": [1, 2]})
    still = run.status(0.0)

    def drive() -> None:
        began_s = time.monotonic()
        while not over.wait(STATUS_S):
            now_s = time.monotonic() - began_s
            if idle:
                watch.take_status(still | {"now_s": now_s})
            else:
                run.feed(watch, now_s)

    driver = threading.Thread(target=drive)
    with ExitStack() as stack:
        server = stack.enter_context(serve_page(watch, TOKEN, 0))
        stack.callback(driver.join)
        stack.callback(over.set)
        driver.start()
        yield f"{server.url}/?token={TOKEN}"
