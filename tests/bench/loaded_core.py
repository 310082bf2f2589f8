"""A JobTracker's core with its journal, filled with nodes, jobs and running maps, whose heartbeats are made by
hand.

The cluster is that of `largest.py`: racks of 20 nodes with four map slots and two reduce slots. Each map's input
has three replicas on random nodes. The backlog of maps is as large as the number of map slots, so no job ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.messages import AttemptReport, AttemptStatus, Heartbeat, Launch, Usage
from schedbed.scheduler import journal
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver, Plan
from schedbed.scheduler.jobtracker import Recorder
from schedbed.scheduler.registry.registry import build_policy
from schedbed.tasks.chance import Coin, chance
from schedbed.tasks.specs import BlockRange, Counters, JobSpec, Split
from tests.bench.core_throughput import MAP_SLOTS, make_job, make_node

RACK_NODES, TASK_S = 20, 30.0
BLOCK_BYTES = 2**26
FULL, MOST_ROUNDS, ROUND_S = 0.98, 8, 3.0
"""Nodes send rounds of heartbeats until this share of map slots is taken, at most that number of rounds."""
USAGE = Usage(cpu_util=0.5, disk_util=0.25, net_util=0.125, memory_bytes=2**32)
PARTITIONS = (2**20,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A cluster to measure: nodes, jobs at a time, and the heartbeats of each kind that are timed."""

    policy: str
    nodes: int
    jobs: int
    heartbeats: int

    @property
    def maps(self) -> int:
        """Return the number of all maps: those that run, and a backlog."""
        slots = self.nodes * MAP_SLOTS
        return slots + max(slots, 3 * self.heartbeats)


@dataclass(slots=True)
class LoadedCore:
    """A driver with its nodes. `running` lists each node's attempts, oldest first.

    `launches` are those of the last reply, and `launched` is the number of launches that `took_s`, the CPU
    seconds of single heartbeats, belongs to.
    """

    size: Size
    driver: Driver
    sink: Recorder
    luck: Coin
    names: list[str]
    running: list[list[str]]
    sequences: list[int]
    now_s: float = 0.0
    launched: int = 0
    launches: list[Launch] = field(default_factory=list[Launch])
    took_s: list[float] = field(default_factory=list[float])

    def send(self, place: int, ends: int, serve: Callable[[float, Heartbeat], Any]) -> None:
        """Send a heartbeat of node number `place` to `serve`, and keep the CPU time of the call.

        The oldest `ends` attempts of the node have ended. The attempts that the reply launches are running in
        the node's next heartbeat.
        """
        held = self.running[place]
        ended, held[:] = held[:ends], held[ends:]
        heartbeat = self._heartbeat(place, ended, held)
        start_s = time.thread_time()
        reply = serve(self.now_s, heartbeat)
        self.took_s.append(time.thread_time() - start_s)
        self.launches = [each for each in reply.actions if isinstance(each, Launch)]
        held += [each.attempt for each in self.launches]
        self.launched += len(self.launches)
        self.driver.take_effects()

    def _heartbeat(self, place: int, ended: list[str], held: list[str]) -> Heartbeat:
        self.sequences[place] += 1
        now_s = self.now_s
        counters = Counters(cpu_s=20.0, read_local_bytes=BLOCK_BYTES, output_bytes=2**20)
        return Heartbeat(
            node=self.names[place],
            incarnation=1,
            sequence=self.sequences[place],
            running=tuple(
                AttemptStatus(attempt=name, progress=self.luck.random(), phase="map", started_s=now_s - 15)
                for name in held
            ),
            finished=tuple(
                AttemptReport(
                    attempt=name,
                    state="succeeded",
                    start_s=now_s - TASK_S,
                    end_s=now_s,
                    counters=counters,
                    partitions=PARTITIONS,
                )
                for name in ended
            ),
            usage=USAGE,
        )

    def core(self, now_s: float, heartbeat: Heartbeat) -> Any:
        """Serve a heartbeat with the core alone."""
        return self.driver.core.heartbeat(now_s, heartbeat)

    def journaled(self, now_s: float, heartbeat: Heartbeat) -> Any:
        """Serve a heartbeat as the live JobTracker does: write the event to the journal, then apply it."""
        return self.driver.do(now_s, "heartbeat", heartbeat)

    def fill(self) -> float:
        """Let all nodes send heartbeats until the map slots are full. Return the CPU seconds per launch."""
        slots = self.size.nodes * MAP_SLOTS
        for _ in range(MOST_ROUNDS):
            for place in range(self.size.nodes):
                self.now_s += ROUND_S / self.size.nodes
                if len(self.running[place]) < MAP_SLOTS:
                    self.send(place, 0, self.core)
                    self._drop_rows()
            if self.launched >= FULL * slots:
                break
        return sum(self.took_s) / self.launched

    def quiet(self, serve: Callable[[float, Heartbeat], Any], count: int) -> list[float]:
        """Return the CPU seconds of heartbeats of random full nodes on which nothing ended."""
        return self._timed(serve, count, ends=0, gap_s=ROUND_S / self.size.nodes)

    def busy(self, serve: Callable[[float, Heartbeat], Any], count: int) -> list[float]:
        """Return the CPU seconds of heartbeats that report the end of a map, so that the next can start."""
        return self._timed(serve, count, ends=1, gap_s=TASK_S / (self.size.nodes * MAP_SLOTS))

    def _timed(
        self, serve: Callable[[float, Heartbeat], Any], count: int, *, ends: int, gap_s: float
    ) -> list[float]:
        self.took_s.clear()
        self.launched = 0
        for place in self._random_places():
            if len(self.running[place]) == MAP_SLOTS:
                self.now_s += gap_s
                self.send(place, ends, serve)
                self._drop_rows()
            if len(self.took_s) == count:
                return list(self.took_s)
        raise AssertionError("places do not end")

    def _random_places(self) -> Iterator[int]:
        while True:
            yield self.luck.randrange(self.size.nodes)

    def _drop_rows(self) -> None:
        """Drop the rows from time to time, as if the launcher had fetched them."""
        if len(self.took_s) % 200 == 0:
            rows = self.sink.fetch({})
            self.sink.fetch(
                {table: self.sink._dropped[table] + len(fetched) for table, fetched in rows.items()}
            )


def make_driver(size: Size, folder: Path | None) -> tuple[Driver, Recorder]:
    """Return a driver without nodes, with its journal in `folder` if one is given, and its sink."""
    sink = Recorder()
    kept = None if folder is None else journal.Journal(folder / "jobtracker.sqlite")
    config = CoreConfig(heartbeat_s=ROUND_S, expiry_s=1e9, slowstart=1.0)
    return Driver(config, lambda: build_policy(size.policy), sink, journal=kept), sink


def add_nodes(driver: Driver, size: Size) -> list[str]:
    """Register the nodes with the core, and return their names."""
    names = [f"n{number:06d}" for number in range(size.nodes)]
    for number, name in enumerate(names):
        driver.core.register(0.0, make_node(name, f"r{number // RACK_NODES:05d}"), 1)
    return names


def make_plans(size: Size, names: list[str], luck: Coin) -> Iterator[Plan]:
    """Yield a plan for each job, with its input file."""
    for number in range(size.jobs):
        file = f"/in/{number}"
        count = size.maps // size.jobs + (number < size.maps % size.jobs)
        places = [tuple(names[int(luck.random() * size.nodes)] for _ in range(3)) for _ in range(count)]
        splits = tuple(
            Split(
                index=index,
                hosts=hosts,
                block=f"blk_{number}_{index}",
                file=file,
                offset=index * BLOCK_BYTES,
                length=BLOCK_BYTES,
            )
            for index, hosts in enumerate(places)
        )
        blocks = tuple(
            BlockRange(
                block=f"blk_{number}_{each.index}", offset=each.offset, length=BLOCK_BYTES, nodes=each.hosts
            )
            for each in splits
        )
        yield Plan(jobs=(_job(number, splits),), files={file: blocks})


def _job(number: int, splits: tuple[Split, ...]) -> JobSpec:
    return replace(make_job(number, splits), submit_s=0.0, reduces=1)


def make_loaded(size: Size, folder: Path | None) -> LoadedCore:
    """Return a core with nodes and jobs, whose map slots are still free."""
    driver, sink = make_driver(size, folder)
    names = add_nodes(driver, size)
    luck = chance(1, "jobtracker scale")
    for plan in make_plans(size, names, luck):
        driver.kinds["add"](0.0, plan)
        driver.kinds["submit"](0.0, driver.waiting[0])
    return LoadedCore(
        size=size,
        driver=driver,
        sink=sink,
        luck=luck,
        names=names,
        running=[[] for _ in names],
        sequences=[0] * size.nodes,
    )
