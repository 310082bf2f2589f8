"""A cluster in virtual time for tests: the shared driver and trackers in one event queue, with faults.

Time is whole milliseconds; events fire in the order (time, insertion). The core's tables are checked after
each event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from schedbed.cluster.messages import (
    AttemptReport,
    AttemptStatus,
    FetchFailure,
    ForgetJob,
    Heartbeat,
    KillAttempt,
    Launch,
    MapOutputs,
    Reply,
    Reregister,
)
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tracker import Tracker
from schedbed.scheduler.core.core import Core
from schedbed.scheduler.core.rows import (
    AttemptRow,
    Commit,
    DecisionRow,
    Discard,
    Effect,
    JobEnded,
    JobRow,
    NodeLost,
)
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.driver import Driver
from schedbed.scheduler.policy import Policy
from schedbed.tasks.specs import Counters, Demand, JobSpec, Priority, Split, TaskKind

GIB = 2**30


def node(name: str, *, rack: str = "r0", maps: int = 1, reduces: int = 1, **changes: Any) -> NodeSpec:
    """Return a node of two cores and 4 GiB."""
    fields: dict[str, Any] = {"cores": 2, "core_speed": 1.0, "memory_bytes": 4 * GIB, **changes}
    return NodeSpec(
        node=name, rack=rack, disk_bps=1e8, network_bps=1e8,
        map_slots=maps, reduce_slots=reduces, **fields,
    )  # fmt: skip


def job(
    name: str,
    maps: int | Sequence[str] = 1,
    *,
    reduces: int = 0,
    user: str = "ana",
    memory: int = GIB,
    reduce_memory: int | None = None,
    vcores: int = 1,
    **changes: Any,
) -> JobSpec:
    """Return a job; `maps` is the number of maps, or a list of each map's hosts, such as `n1 n2`."""
    hosts = [""] * maps if isinstance(maps, int) else list(maps)
    splits = tuple(
        Split(
            index=i,
            block=f"{name}_b{i}" if where else None,
            hosts=tuple(where.split()),
            offset=100 * i,
            length=100,
        )
        for i, where in enumerate(hosts)
    )
    map_demand = Demand(memory_bytes=memory, vcores=vcores)
    reduce_demand = Demand(memory_bytes=memory if reduce_memory is None else reduce_memory, vcores=vcores)
    if "priority" in changes:
        changes["priority"] = Priority(changes["priority"])
    return JobSpec(
        job=name, name=name, app="synthetic", user=user, splits=splits, reduces=reduces,
        map_demand=map_demand, reduce_demand=reduce_demand, **changes,
    )  # fmt: skip


def covers(spec: JobSpec, maps: Iterable[Split]) -> bool:
    """Return whether the maps together own each byte of the job's input exactly once.

    If the job has no input, only the number of maps is compared.
    """
    ranges = sorted((each.offset, each.length) for each in maps)
    if not any(split.block for split in spec.splits):
        return len(ranges) == spec.maps
    owned = sorted((split.offset, split.length) for split in spec.splits)
    for offset, length in owned:
        while length > 0 and ranges:
            begin, mine = ranges.pop(0)
            if begin != offset:
                return False
            offset, length = offset + mine, length - mine
        if length:
            return False
    return not ranges


class Tape:
    """A sink that keeps all rows."""

    def __init__(self) -> None:
        self.decisions: list[DecisionRow] = []
        self.attempts: list[AttemptRow] = []
        self.jobs: list[JobRow] = []

    def decision(self, row: DecisionRow) -> None:
        """Keep the row."""
        self.decisions.append(row)

    def attempt(self, row: AttemptRow) -> None:
        """Keep the row."""
        self.attempts.append(row)

    def job(self, row: JobRow) -> None:
        """Keep the row."""
        self.jobs.append(row)


class WorldNode(Tracker):
    """A node's tracker with the attempts that run on the node, and the map outputs known to its reduces."""

    def __init__(self, world: World, spec: NodeSpec) -> None:
        self.world = world
        self.spec = spec
        self.up = True
        super().__init__(spec.node, 1)

    def begin_life(self, incarnation: int) -> None:
        """Start an incarnation of the tracker, and forget all attempts of the node."""
        super().begin_life(incarnation)
        self.launches: dict[str, Launch] = {}  # By running attempt.
        self.started_ms: dict[str, int] = {}
        self.reducing: set[str] = set()  # Reduces that have all their input.
        self.known: dict[str, tuple[dict[int, tuple[str, str]], bool]] = {}
        self.forgotten: list[str] = []

    def start_over(self) -> None:
        """Start the next incarnation and register it."""
        self.begin_life(self.incarnation + 1)
        self.world.register(self)

    def report(self) -> Heartbeat:
        """Return the tracker's heartbeat, with a progress of 0.5 for each running attempt."""
        self.on_running(
            [
                AttemptStatus(attempt=a, progress=0.5, phase="map", started_s=self.started_ms[a] / 1000)
                for a in self.launches
            ]
        )
        return self.heartbeat()

    def act(self, reply: Reply) -> None:
        """Carry out the actions in a JobTracker's reply."""
        for action in self.on_reply(reply):
            match action:
                case Launch():
                    self._launch(action)
                case KillAttempt():
                    self._end(action.attempt, "killed", action.reason)
                case MapOutputs():
                    self._learn(action)
                case ForgetJob():
                    self.known.pop(action.job, None)
                    self.forgotten.append(action.job)
                case Reregister():
                    self.start_over()

    def _launch(self, launch: Launch) -> None:
        assert launch.attempt not in self.launches, f"{launch.attempt} was launched twice"
        self.world.launched.append(launch.attempt)
        if launch.kind is TaskKind.MAP:
            self.world.part(launch)
        self.launches[launch.attempt] = launch
        self.started_ms[launch.attempt] = self.world.now_ms
        reason = self.world.failing(launch.attempt, self.node)
        if reason is not None:
            self.world.after(self.world.task_ms // 2, lambda: self._end(launch.attempt, "failed", reason))
        elif launch.kind is TaskKind.MAP:
            self.world.after(self._duration_ms(launch), lambda: self._end(launch.attempt, "succeeded", ""))

    def _duration_ms(self, launch: Launch) -> int:
        known_ms = self.world.lasts(launch.attempt, self.node)
        return self.world.durations.get(launch.job, self.world.task_ms) if known_ms is None else known_ms

    def _learn(self, news: MapOutputs) -> None:
        outputs = self.known.get(news.job, ({}, False))[0]
        for output in news.outputs:
            if not output.lost:
                outputs[output.index] = (output.attempt, output.node)
            elif outputs.get(output.index, ("", ""))[0] == output.attempt:
                del outputs[output.index]
        self.known[news.job] = (outputs, news.all_done)
        self.shuffle()

    def shuffle(self) -> None:
        """Start the reduce phase of reduces with all input, and report outputs that cannot be fetched."""
        for attempt, launch in self.launches.items():
            if launch.kind is TaskKind.MAP or attempt in self.reducing or launch.job not in self.known:
                continue
            outputs, all_done = self.known[launch.job]
            missing = [a for a, node in outputs.values() if not self.world.fetchable(a, node)]
            for a in missing:
                self.on_fetch_failed(FetchFailure(reduce_attempt=attempt, map_attempt=a))
            if all_done and not missing:
                maps = [self.world.parts[a.rpartition("_")[0]] for a, _ in outputs.values()]
                assert covers(self.world.specs[launch.job], maps), (attempt, outputs)
                self.reducing.add(attempt)
                duration_ms = self._duration_ms(launch)
                self.world.after(duration_ms, lambda a=attempt: self._end(a, "succeeded", ""))

    def _end(self, attempt: str, state: str, reason: str) -> None:
        if self.launches.pop(attempt, None) is None or not self.up:
            return
        self.reducing.discard(attempt)
        start_s = self.started_ms.pop(attempt) / 1000
        self.on_ended(
            AttemptReport(
                attempt=attempt,
                state=state,
                reason=reason,
                start_s=start_s,
                end_s=self.world.now_ms / 1000,
                counters=self.world.counters,
            )
        )
        if self.unanswered is None:
            self.world.after(0, lambda: self.world.send(self))


class World:
    """Runs jobs on simulated nodes under a policy.

    Tests may lose messages, crash and restart nodes, and make attempts, commits or fetches fail.
    """

    def __init__(
        self,
        policy: Policy,
        nodes: Iterable[NodeSpec],
        *,
        task_ms: int = 10_000,
        heartbeat_ms: int = 500,
        audit: bool = True,
        **config: Any,
    ) -> None:
        self.tape = Tape()
        self.heartbeat_ms = heartbeat_ms
        settings = CoreConfig(heartbeat_s=heartbeat_ms / 1000, **config)
        self.driver = Driver(settings, lambda: policy, self.tape)
        self.now_ms = 0
        self.task_ms = task_ms
        self.durations: dict[str, int] = {}  # By job; default: `task_ms`.
        self.counters = Counters(output_bytes=10, cpu_s=1.0)  # In the report of each attempt.
        self.audit = audit
        self.specs: dict[str, JobSpec] = {}
        self.effects: list[Effect] = []
        self.outputs: dict[str, str] = {}  # Committed attempt by task.
        self.launched: list[str] = []
        self.parts: dict[str, Split] = {}  # Input range of each launched map.
        self.unfetchable: set[str] = set()
        self.lasts: Callable[[str, str], int | None] = lambda attempt, node: (
            None
        )  # Duration (ms) on a node; overrides `durations`.
        self.failing: Callable[[str, str], str | None] = lambda attempt, node: None
        self.loses: Callable[[str, int], str] = lambda node, count: ""  # Returns "request", "reply" or "".
        self.commit_fails: Callable[[str], bool] = lambda attempt: False
        self.sent: dict[str, int] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.trackers: dict[str, WorldNode] = {}
        for place, spec in enumerate(nodes):
            tracker = self.trackers[spec.node] = WorldNode(self, spec)
            self.register(tracker)
            self.after(10 + 7 * place % heartbeat_ms, lambda t=tracker: self._send_heartbeats(t))
        self.after(heartbeat_ms, self._ticks)

    @property
    def core(self) -> Core:
        """Return the driver's core."""
        return self.driver.core

    @property
    def now_s(self) -> float:
        """Return the current virtual time in seconds."""
        return self.now_ms / 1000

    # Events

    def after(self, delay_ms: int, fire: Callable[[], None]) -> None:
        """Schedule a call after a delay in milliseconds."""
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._count, fire))
        self._count += 1

    def at(self, time_s: float, fire: Callable[[], None]) -> World:
        """Schedule a call at a time in seconds; return the world, for chaining."""
        self.after(round(time_s * 1000) - self.now_ms, fire)
        return self

    def do(self, kind: str, *arguments: Any) -> Any:
        """Give the driver an event at the current time; return the driver's answer."""
        return self.driver.do(self.now_s, kind, *arguments)

    def submit(self, spec: JobSpec) -> World:
        """Schedule the job's submission at its `submit_s`; return the world, for chaining."""
        self.specs[spec.job] = spec
        return self.at(spec.submit_s, lambda: self.do("submit", spec))

    def register(self, tracker: WorldNode) -> None:
        """Register the tracker's node and incarnation with the driver."""
        self.do("register", tracker.spec, tracker.incarnation)

    def crash(self, name: str) -> None:
        """Crash the node silently: the masters receive no message about it."""
        self.trackers[name].up = False

    def restart(self, name: str) -> None:
        """Bring the node up again and start its next incarnation."""
        tracker = self.trackers[name]
        tracker.up = True
        tracker.start_over()

    def fetchable(self, map_attempt: str, node: str) -> bool:
        """Return whether the output of a map attempt can be fetched from a node."""
        return self.trackers[node].up and map_attempt not in self.unfetchable

    def part(self, launch: Launch) -> None:
        """Record the input range of a map, and check that all attempts of the map have the same range."""
        splits, index = self.specs[launch.job].splits, launch.index
        mine = launch.part.split(index) if launch.part is not None else splits[index]
        known = self.parts.setdefault(launch.attempt.rpartition("_")[0], mine)
        assert (known.offset, known.length) == (mine.offset, mine.length), launch

    def send(self, tracker: WorldNode) -> None:
        """Send a node's heartbeat and deliver the reply, unless the test loses the request or the reply."""
        if not tracker.up:
            return
        name = tracker.spec.node
        count = self.sent[name] = self.sent.get(name, 0) + 1
        lost = self.loses(name, count)
        tracker.shuffle()
        heartbeat = tracker.report()
        if lost == "request":
            return
        reply = self.do("heartbeat", heartbeat)
        self._do_effects()
        if lost != "reply":
            tracker.act(reply)

    def _send_heartbeats(self, tracker: WorldNode) -> None:
        self.send(tracker)
        self.after(self.heartbeat_ms, lambda: self._send_heartbeats(tracker))

    def _ticks(self) -> None:
        self.do("tick")
        self.after(self.heartbeat_ms, self._ticks)

    def _do_effects(self) -> None:
        for effect in self.driver.take_effects():
            self.effects.append(effect)
            if isinstance(effect, Commit):
                self.after(3, lambda e=effect: self._commit(e))
            elif isinstance(effect, Discard):
                assert effect.attempt not in self.outputs.values(), f"{effect.attempt} was committed"
            else:
                assert isinstance(effect, NodeLost | JobEnded)

    def _commit(self, effect: Commit) -> None:
        if self.commit_fails(effect.attempt):
            self.do("commit_failed", effect.attempt, "output unreadable")
        elif effect.job not in self.ended_jobs():
            assert effect.task not in self.outputs, f"{effect.task} was committed twice"
            self.outputs[effect.task] = effect.attempt
            self.do("committed", effect.attempt)
            self.do("committed", effect.attempt)

    def run(self, *, limit_s: float = 3600, until_s: float | None = None) -> World:
        """Run until all jobs have ended, or until a time in seconds.

        Raises AssertionError if the jobs do not end.
        """
        while self._heap:
            time_ms, _, fire = self._heap[0]
            if until_s is not None and time_ms > until_s * 1000:
                return self
            heapq.heappop(self._heap)
            self.now_ms = time_ms
            fire()
            self._do_effects()
            if self.audit:
                self.core.check_tables()
            if until_s is None and len(self.tape.jobs) == len(self.specs) and self.core.all_ended():
                return self
            assert time_ms <= limit_s * 1000, f"stuck: {self.core.status()}"
        raise AssertionError("nothing left to happen")

    # Results

    def ended_jobs(self) -> dict[str, str]:
        """Return the final state of each ended job."""
        return {row.job: row.state for row in self.tape.jobs}

    def launches(self) -> list[str]:
        """Return each launch as `seconds task node (reason)`."""
        return [
            f"{row.t:.2f} {row.task} {row.node} ({row.reason})"
            for row in self.tape.decisions
            if row.answer in ("launch", "split")
        ]

    def ends(self, state: str | None = None) -> list[str]:
        """Return the ids of ended attempts, all or those of one final state."""
        return [row.attempt for row in self.tape.attempts if state in (None, row.state)]

    def history(self) -> str:
        """Return all rows as text, for the comparison of whole runs."""
        rows = [*self.tape.decisions, *self.tape.attempts, *self.tape.jobs]
        return "\n".join(str(tuple(row)) for row in rows) + "\n"
