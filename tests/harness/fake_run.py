"""Writes the folder of a run without running: a small list scheduler makes up plausible rows."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.deploy.results.record_check import merge_parts
from schedbed.deploy.results.runfile import RunFile, RunRecord
from schedbed.scheduler.history import COLUMNS, History

MIB = 2**20
USERS = ("ana", "bo", "cyd")
APPS = ("wordcount", "sort", "grep", "synthetic")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRun:
    """The settings of a made-up run; `write` creates its folder.

    `attempts` is the approximate number of maps of all jobs under a policy.
    """

    policies: tuple[str, ...] = ("fifo", "fair", "delay:node_wait=5s")
    repeats: int = 1
    nodes: int = 6
    racks: int = 2
    jobs: int = 12
    maps: int = 160
    map_s: float = 4.0
    heartbeat_s: float = 0.5
    seed: int = 7
    host_load: float = 0.6
    kill_at: float | None = 30.0

    def write(self, out: Path) -> RunFile:
        """Write run.json and the merged tables into `out`."""
        runs: list[RunRecord] = []
        for repeat in range(self.repeats):
            for policy in self.policies:
                made = _Simulation(self, policy, repeat).run()
                history = History(out, policy, repeat)
                for table, rows in made.rows.items():
                    history.append(table, rows)
                history.close()
                samples = [[float(t), self.host_load] for t in range(1, int(made.end_s))]
                record = RunRecord(policy=policy, repeat=repeat, epoch_s=1.8e9, duration_s=made.end_s)
                record.state, record.host_samples = "succeeded", samples
                runs.append(record)
        run = RunFile(
            scenario={
                "name": "fake",
                "seed": self.seed,
                "scale": 0.05,
                "cluster": {"nodes": self.node_list()},
            },
            policies=list(self.policies),
            repeats=self.repeats,
            seed=self.seed,
            machines="process",
            versions={"schedbed": "0.1.0", "python": "3.11.2", "ray": "2.50.0"},
            host={"cores": 4, "memory_bytes": 16 * 2**30, "system": "Linux 6.1 x86_64"},
            wall_start="2026-01-05T10:00:00+00:00",
            isolated_s={f"job_{number:04d}": 5.0 + number for number in range(1, 100)},
            runs=runs,
        )
        run.save(out)
        merge_parts(out, run)
        return run

    def node_list(self) -> list[dict[str, Any]]:
        """Return the declared nodes, as in run.json."""
        return [
            {
                "node": f"n{i + 1}",
                "rack": "ab"[i % 2] if self.racks == 2 else f"r{i % self.racks}",
                "cores": 2,
                "core_speed": 0.1,
                "memory_bytes": 512 * MIB,
                "disk_bps": 40e6,
                "network_bps": 12.5e6,
                "map_slots": 2,
                "reduce_slots": 1,
            }
            for i in range(self.nodes)
        ]


@dataclass(slots=True)
class _Job:
    job: str
    user: str
    submit: float
    deadline: float | None
    replicas: list[list[str]]
    reduces: int
    pending: list[int] = field(default_factory=list)
    running: int = 0
    maps_done: int = 0
    reduces_left: int = 0
    reduces_done: int = 0
    start: float | None = None
    finish: float | None = None
    last_end: float = 0.0


class _Simulation:
    """Simulates one repeat of one policy: free slots take tasks one after another in virtual time."""

    def __init__(self, fake: FakeRun, policy: str, repeat: int) -> None:
        self.fake, self.policy = fake, policy
        self.luck = random.Random(f"{fake.seed}/{policy}/{repeat}")
        self.nodes = fake.node_list()
        self.racks = {node["node"]: node["rack"] for node in self.nodes}
        self.jobs = self._make_jobs(random.Random(f"{fake.seed}/{repeat}"))
        self.rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in COLUMNS}
        self.spans: dict[str, list[tuple[float, float]]] = {}
        self.tries: dict[str, int] = {}
        self.end_s = 0.0
        self.unfinished = list(self.jobs)

    def run(self) -> _Simulation:
        """Simulate until every job has finished."""
        queue: list[tuple[float, int, dict[str, Any], str]] = []
        for number, (node, kind) in enumerate(self._slots()):
            heapq.heappush(queue, (0.5 + 0.01 * number, number, node, kind))
        while self.unfinished:
            now, number, node, kind = heapq.heappop(queue)
            dead = self._down(node["node"], now)
            free_at = None if dead else self._offer(now, node, kind)
            heapq.heappush(queue, (free_at or now + self.fake.heartbeat_s, number, node, kind))
        self.end_s = max(job.finish or 0.0 for job in self.jobs) + 1.0
        self._job_rows()
        self._make_heartbeats()
        if self.fake.kill_at is not None:
            until = self.fake.kill_at + 15.0
            self.rows["faults"].append((self.fake.kill_at, "kill", "n3", None))
            self.rows["faults"].append((self.fake.kill_at + 5, "slow", "n4", until))
        return self

    def _make_jobs(self, luck: random.Random) -> list[_Job]:
        sizes = [luck.paretovariate(1.1) for _ in range(self.fake.jobs)]
        jobs: list[_Job] = []
        names = [node["node"] for node in self.nodes]
        for i, size in enumerate(sizes):
            maps = max(1, round(self.fake.maps * size / sum(sizes)))
            submit = 0.5 + i * 40.0 / self.fake.jobs
            deadline = submit + maps * self.fake.map_s / 3 + 12 if i % 3 == 0 else None
            replicas = [luck.sample(names, min(3, len(names))) for _ in range(maps)]
            reduces = max(1, min(3, maps // 5))
            job = _Job(f"job_{i + 1:04d}", USERS[i % 3], submit, deadline, replicas, reduces)
            job.pending, job.reduces_left = list(range(maps)), reduces
            jobs.append(job)
        return jobs

    def _slots(self) -> list[tuple[dict[str, Any], str]]:
        kinds = [("map", "map_slots"), ("reduce", "reduce_slots")]
        return [(node, kind) for kind, key in kinds for node in self.nodes for _ in range(node[key])]

    def _down(self, node: str, now: float) -> bool:
        at = self.fake.kill_at
        return at is not None and node == "n3" and at <= now < at + 20

    def _offer(self, now: float, node: dict[str, Any], kind: str) -> float | None:
        """Launch a task in a free slot. Return the time of the task's end, or None if no task can start."""
        ready = [job for job in self.unfinished if job.submit <= now]
        if self.policy != "fifo":
            ready.sort(key=lambda job: (job.running, job.submit))
        for job in ready:
            if kind == "map" and job.pending:
                index = self._pick(job, node["node"], now)
                if index is not None:
                    return self._map(job, index, node, now)
            if kind == "reduce" and job.reduces_left and job.maps_done == len(job.replicas):
                return self._reduce(job, node, now)
        return None

    def _pick(self, job: _Job, node: str, now: float) -> int | None:
        for index in job.pending[:40]:
            if node in job.replicas[index]:
                return index
        if self.policy.startswith("delay") and self.luck.random() < 0.8:
            row = (now, node, job.job, None, "map", "skip", "waits 1.2 of 5 s for a node with its data")
            self.rows["decisions"].append(row)
            return None
        return job.pending[0]

    def _map(self, job: _Job, index: int, node: dict[str, Any], now: float) -> float:
        racks = self.racks
        holders = job.replicas[index]
        near = "rack" if node["rack"] in {racks[h] for h in holders} else "off"
        locality = "node" if node["node"] in holders else near
        job.pending.remove(index)
        lasts = self.fake.map_s * self.luck.uniform(0.7, 1.4) * {"node": 1, "rack": 1.3, "off": 1.6}[locality]
        state, reason = self._fate(node["node"], now, lasts)
        if state == "lost":
            lasts = (self.fake.kill_at or 0.0) - now
        self._attempt(job, "map", index, node, locality, now, lasts, state, reason)
        if state == "succeeded":
            job.maps_done += 1
        else:
            job.pending.append(index)
        return now + lasts + 0.05

    def _fate(self, node: str, now: float, lasts: float) -> tuple[str, str]:
        at = self.fake.kill_at
        if at is not None and node == "n3" and now < at < now + lasts:
            return "lost", "node n3 was lost"
        luck = self.luck.random()
        if luck < 0.015:
            return "failed", "read_input: block is corrupt on every replica"
        return ("killed", "superseded") if luck > 0.985 else ("succeeded", "")

    def _reduce(self, job: _Job, node: dict[str, Any], now: float) -> float:
        job.reduces_left -= 1
        lasts = self.fake.map_s * 1.5 * self.luck.uniform(0.8, 1.3)
        index = job.reduces - job.reduces_left - 1
        self._attempt(job, "reduce", index, node, "off", now, lasts, "succeeded", "")
        job.reduces_done += 1
        if job.reduces_done == job.reduces:
            job.finish = job.last_end
            self.unfinished.remove(job)
        return now + lasts + 0.05

    def _attempt(
        self,
        job: _Job,
        kind: str,
        index: int,
        node: dict[str, Any],
        locality: str,
        now: float,
        lasts: float,
        state: str,
        reason: str,
    ) -> None:
        task = f"{job.job}_{kind[0]}_{index:06d}"
        number = self.tries[task] = self.tries.get(task, -1) + 1
        is_map = kind == "map"
        size = 3 * MIB if is_map else 0
        local = size if locality == "node" else 0
        start, end = now + 0.02, now + lasts
        job.start = job.start if job.start is not None else start
        job.last_end = max(job.last_end, end)
        self.spans.setdefault(node["node"], []).append((start, end))
        values: dict[str, Any] = dict.fromkeys(COLUMNS["attempts"])
        values |= {"job": job.job, "task": task, "attempt": f"{task}_{number}", "kind": kind}
        values |= {"node": node["node"], "rack": node["rack"], "locality": locality if is_map else None}
        values |= {"speculative": False, "assigned": now, "start": start, "end": end, "state": state}
        values |= {"reason": reason, "offset": index * size if is_map else 0, "length": size}
        values |= {"cpu_s": lasts * 0.07, "read_local_bytes": local, "read_remote_bytes": size - local}
        values |= {"shuffle_bytes": 0 if is_map else 2 * MIB, "spill_bytes": size // 2, "output_bytes": MIB}
        if not is_map:
            values |= {"shuffle_end": now + lasts * 0.4, "sort_end": now + lasts * 0.5}
        self.rows["attempts"].append(tuple(values.values()))
        why = f"{locality}-local" if is_map else "first job with reduces to run"
        self.rows["decisions"].append((now, node["node"], job.job, task, kind, "launch", why))
        if is_map and number == 0:
            for holder in job.replicas[index]:
                block = (f"blk_{task}", f"/in/{job.job}", holder, size, 0.0, None, "input")
                self.rows["blocks"].append(block)

    def _job_rows(self) -> None:
        for i, job in enumerate(self.jobs):
            values = (
                job.job,
                f"{APPS[i % 4]}-{i + 1}",
                job.user,
                job.user,
                APPS[i % 4],
                job.submit,
                job.start,
            )
            values += (job.finish, job.deadline, len(job.replicas), job.reduces)
            values += (len(job.replicas) * 3 * MIB, job.reduces * MIB, "succeeded")
            self.rows["jobs"].append(values)

    def _make_heartbeats(self) -> None:
        heartbeats = int(self.end_s / self.fake.heartbeat_s)
        for node in self.nodes:
            busy = [0] * (heartbeats + 2)
            for start, end in self.spans.get(node["node"], []):
                busy[int(start / self.fake.heartbeat_s) + 1] += 1
                busy[min(heartbeats, int(end / self.fake.heartbeat_s)) + 1] -= 1
            running = 0
            for heartbeat in range(heartbeats):
                running += busy[heartbeat]
                t = heartbeat * self.fake.heartbeat_s
                if not self._down(node["node"], t):
                    cpu = min(1.0, running / 2 * self.luck.uniform(0.6, 1.0))
                    values = (
                        t,
                        node["node"],
                        min(running, 2),
                        max(0, running - 2),
                        cpu,
                        cpu * 0.5,
                        cpu * 0.3,
                    )
                    self.rows["heartbeats"].append(
                        (*values, running * 40 * MIB, self.luck.uniform(1e-4, 4e-4))
                    )
