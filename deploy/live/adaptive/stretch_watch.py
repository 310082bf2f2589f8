"""A thread of the driver, the process of the command, that adapts the stretch of a live run to the host's
load.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from schedbed.cluster.agent.link_budgets import LINK_BUCKET, rates_of
from schedbed.cluster.clock import RunClock
from schedbed.cluster.machines.machine import HOST_PID
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.live.adaptive.others_use import OthersUse
from schedbed.deploy.live.adaptive.stretch_rule import StretchRule
from schedbed.tasks.pacing import Budget
from schedbed.tasks.stretch_file import EmulatedTime, StretchFile

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Real seconds between two measurements of the CPU that others use."""
PRICE = 100
"""The pause after a measurement in multiples of its CPU time, so that it costs at most 1% of a core."""
LEAD_S = 0.15
"""Real seconds between writing a change and its effect, so that all processes have read it."""


def told_changes(
    time_: EmulatedTime, others: Sequence[float], epoch_s: float, end_s: float
) -> list[list[float]]:
    """Return a list [t, stretch, cores] for each change of the stretch that `time_` has recorded.

    The stretch is the number of real seconds per emulated second. The first list has the time 0. `t` is in
    emulated seconds since the run's start `epoch_s`, a Unix time. `others` contains, for each change, the
    number of cores that other programs used. This number, rounded, is `cores`. Changes are recorded `LEAD_S`
    before they take effect; one that would be after the run's end, `end_s` emulated seconds after its start,
    is left out.
    """
    start_s = time_.emulated_s(epoch_s)
    rows = [
        [max(0.0, round(time_.emulated_s(real_s) - start_s, 3)), stretch, round(cores, 2)]
        for (real_s, stretch), cores in zip(time_.changes, others, strict=True)
    ]
    before = sum(1 for row in rows if row[0] == 0)
    return [row for row in rows[max(0, before - 1) :] if row[0] <= end_s]


class StretchWatch:
    """A thread that adapts the stretch of the run `config` to the host's load.

    The stretch is the number of real seconds per emulated second. The thread starts when the object is
    created and stops when `end` is called.
    """

    def __init__(self, config: RunConfig) -> None:
        assert config.changes is not None
        cluster = config.cluster
        declared = sum(node.stretched(cluster.stretch).cpu_rate for node in cluster.nodes)
        self._rule = StretchRule(cluster.stretch, declared, psutil.cpu_count() or 1)
        self._nodes = config.work / "nodes"
        self._file = StretchFile(config.changes, write=True)
        self._clock = RunClock(0.0, cluster.stretch, config.changes)
        rates = rates_of(cluster.nodes, cluster.links, cluster.stretch)
        folder = config.links
        self._links = [] if folder is None else [(Budget.open(folder / link), rate) for link, rate in rates]
        self._use = OthersUse(self._roots, time.monotonic)
        self._others = [0.0]  # Cores that others used at each change in the file.
        self._short_s = 0.0  # Emulated seconds for which the largest stretch was too small.
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stretch", daemon=True)
        self._thread.start()

    def begin(self, epoch_s: float) -> None:
        """Store the time at which the run starts, `epoch_s`, as Unix time."""
        self._clock.begin(epoch_s)
        self._short_s = 0.0

    def end(self) -> dict[str, Any]:
        """Stop the thread. Return the changes of the stretch, and its largest and mean value, for run.json.

        The entry `short_share` is the share of the time in which even the largest stretch was too small. The
        result is an empty dictionary if the run has not started.
        """
        self._over.set()
        self._thread.join()
        for link, _ in self._links:
            link.close()
        epoch_s, now_s = self._clock.epoch_s, self._clock.now_s()
        if not epoch_s or now_s <= 0:
            return {}
        changes = told_changes(self._file.time, self._others, epoch_s, now_s)
        return {
            "changes": changes,
            "largest": max(stretch for _, stretch, _ in changes),
            "mean": round((self._clock.time_of_day_s(now_s) - epoch_s) / now_s, 4),
            "short_share": round(min(1.0, self._short_s / now_s), 4),
        }

    def _roots(self) -> Iterable[int]:
        """Yield the ids of the processes that belong to the run, without their descendants.

        These are this process, and those processes of the nodes that are not descendants of this process.
        """
        yield os.getpid()
        for path in self._nodes.glob(f"*/{HOST_PID}"):
            if (text := path.read_text()).isdigit():
                yield int(text)

    def _run(self) -> None:
        self._use.read()
        wait_s = LOOK_S
        while not self._over.wait(wait_s):
            began_cpu_s = time.thread_time()
            self._look(time.monotonic(), wait_s)
            wait_s = max(LOOK_S, PRICE * (time.thread_time() - began_cpu_s))

    def _look(self, now_s: float, elapsed_s: float) -> None:
        if self._rule.look(now_s, self._use.read()):
            self._change()
        if not self._rule.is_enough:
            self._short_s += elapsed_s / self._clock.stretch

    def _change(self) -> None:
        """Publish the new stretch to all processes, and change the rates of the links between racks.

        The nodes themselves change the rates of their disks, networks and CPUs.
        """
        if self._file.is_full:
            log.warning("the stretch stays as it is: it has changed too often")
            return
        self._others.append(self._rule.others)
        last_s, _ = self._file.time.changes[-1]  # The host's clock may have been set back.
        self._file.append(max(RunClock.host_time_s() + LEAD_S, last_s), self._rule.stretch)
        if self._links and not self._over.wait(LEAD_S):
            for link, rate_bps in self._links:
                link.set_rate(LINK_BUCKET, rate_bps * self._clock.kept)
