"""Compares FIFO and Fair with a second, independent simulator: jobs of real traces end at the same times.

One node has all slots and all input, so locality plays no role. Messages, launches and commits take no time,
and heartbeats are so frequent that a job never waits for one. What remains is which task receives which slot
at what time.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.core.rows import NoSink
from schedbed.scheduler.simulate.setup import Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.workloads.planned import PlannedJob

TRACES = Path(os.environ.get("SCHEDBED_TRACES", "../shared/traces")).resolve()
SLOTS = (3, 2)
SLOWSTART = 0.05
AT_ONCE = Timing(request_s=0.0, decision_s=0.0, reply_s=0.0, commit_s=0.0)
HEARTBEAT_S = 1e-7
FREE = Latencies(
    launch_s=0.0, launch_cpu_s=0.0, end_s=0.0, end_cpu_s=0.0, fetch_s=0.0, fetch_cpu_s=0.0, block_s=0.0
)
NODE = {"cores": 16, "core_speed": 1, "memory": "64GiB", "disk": "1GB/s", "network": "10Gbit/s"}
NODE |= {"map_slots": SLOTS[0], "reduce_slots": SLOTS[1]}


@dataclass
class Job:
    """A job of the second simulator, with the durations and the counts of its maps and reduces."""

    number: int
    user: str
    submit_s: float
    lasts_s: tuple[list[float], list[float]]  # of maps, of reduces
    begun: list[int] = field(default_factory=lambda: [0, 0])
    ended: list[int] = field(default_factory=lambda: [0, 0])
    waiting: list[int] = field(default_factory=list)  # reduces that hold a slot and wait for the last map
    finish_s: float | None = None

    def ready(self, kind: int) -> bool:
        """Return whether a map (`kind` 0) or reduce (1) of the job can start."""
        slow = kind and self.ended[0] < SLOWSTART * len(self.lasts_s[0])
        return self.begun[kind] < len(self.lasts_s[kind]) and not slow

    def running(self, kind: int) -> int:
        """Return the number of map (`kind` 0) or reduce (1) slots that the job holds."""
        return self.begun[kind] - self.ended[kind]


def reference(jobs: list[Job], slots: tuple[int, int], *, fair: bool) -> list[float | None]:
    """Return each job's finish time under FIFO or, with `fair`, under Fair with a pool for each user.

    Jobs of a pool share its slots fairly. `slots` has the numbers of map and reduce slots.
    """
    events: list[tuple[float, int, int, int]] = [(job.submit_s, -1, job.number, 0) for job in jobs]
    heapq.heapify(events)
    present: list[Job] = []
    free = list(slots)
    while events:
        now_s = events[0][0]
        while events and events[0][0] == now_s:
            _, kind, number, _ = heapq.heappop(events)
            job = jobs[number]
            if kind < 0:
                present.append(job)
                continue
            free[kind] += 1
            job.ended[kind] += 1
            if kind == 0 and job.ended[0] == len(job.lasts_s[0]):
                for index in job.waiting:
                    heapq.heappush(events, (now_s + job.lasts_s[1][index], 1, number, index))
            if job.ended == [len(each) for each in job.lasts_s]:
                job.finish_s = now_s
        for kind in (0, 1):
            while free[kind] and (ready := [job for job in present if job.ready(kind)]):
                job = min(
                    ready,
                    key=lambda one: _fair_key(one, present, kind) if fair else (one.submit_s, one.number),
                )
                index = job.begun[kind]
                job.begun[kind] += 1
                free[kind] -= 1
                if kind and job.ended[0] < len(job.lasts_s[0]):
                    job.waiting.append(index)
                else:
                    heapq.heappush(events, (now_s + job.lasts_s[kind][index], kind, job.number, index))
        present = [
            job for job in present if job.finish_s is None
        ]  # outputs are committed after slots are dealt
    return [job.finish_s for job in jobs]


def _fair_key(job: Job, present: list[Job], kind: int) -> tuple[Any, ...]:
    pool = [one for one in present if one.user == job.user]
    held = Counter({job.user: sum(one.running(kind) for one in pool)})
    first_s = min((one.submit_s, one.number) for one in pool)[0]
    return (held[job.user], first_s, job.user, job.running(kind), job.submit_s, job.number)


def of_planned(number: int, job: PlannedJob) -> Job:
    """Convert a planned job to a job of the second simulator."""
    maps, reduces = (
        [cost.duration_s or 0.0 for cost in costs] for costs in (job.map_costs, job.reduce_costs)
    )
    return Job(number, job.user, job.submit_s, (maps, reduces))


class Finishes(NoSink):
    """A sink that keeps the jobs' finish times."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}

    def job(self, row: Any) -> None:
        assert row.state == "succeeded"
        self.at_s[row.job] = row.finish

    def attempt(self, row: Any) -> None: ...
    def heartbeat(self, row: Any) -> None: ...
    def block(self, row: Any) -> None: ...
    def fault(self, row: Any) -> None: ...


@pytest.mark.skipif(
    not TRACES.is_dir(), reason=f"no traces at {TRACES} (SCHEDBED_TRACES names another place)"
)
@pytest.mark.parametrize("policy", ["fifo", "fair"])
@pytest.mark.parametrize(
    "name",
    [
        "hadoop-gridmix/trace_7m.json.gz",
        "hadoop-rumen/small-trace-test_folder-input-trace.json.gz",
        "hadoop-gridmix/trace_5m.json.gz",
    ],
)
def test_every_job_ends_when_the_reference_says(name: str, policy: str) -> None:
    values = {
        "cluster": {"nodes": 1, "node": NODE},
        "blocks": {"size": "64MiB", "replication": 1},
        "workload": {"trace": str(TRACES / name)},
        "policies": [policy],
    }
    scenario = resolve(values)
    often = replace(scenario.cluster, heartbeat_s=HEARTBEAT_S)  # oftener than a scenario may ask for
    scenario = replace(scenario, cluster=often)
    finishes = Finishes()
    setup = replace(setup_of(scenario, scenario.policies[0], 0, costs_of(scenario), FREE), timing=AT_ONCE)
    Simulation(setup, finishes).run()

    def expected(slots: tuple[int, int]) -> list[float | None]:
        jobs = [of_planned(number, job) for number, job in enumerate(scenario.jobs)]
        return reference(jobs, slots, fair=policy == "fair")

    found = [finishes.at_s[job.job] for job in scenario.jobs]
    assert expected(SLOTS) != expected((10_000, 10_000)), "slots must be scarce"
    assert found == pytest.approx(expected(SLOTS), abs=1e-6, rel=0)
