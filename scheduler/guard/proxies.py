"""Read-only proxies of the core's objects, which a user's policy receives instead of the objects.

A proxy has only what a protocol in `scheduler.view` has: constants are stored in it, other attributes are
read from the object by properties implemented in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from schedbed.cluster.messages import Usage
from schedbed.scheduler.core.entities import (
    MAP,
    REDUCE,
    Attempt,
    EmptyTask,
    Job,
    MasterTask,
    Node,
    Stage,
    Task,
)
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.states import ASSIGNED, COMMITTING, FAILED, RUNNING, SUCCEEDED, Tally
from schedbed.scheduler.guard.read_only import (
    MapProxy,
    Proxy,
    clean,
    frozen,
    live,
    proxies_of,
    put,
    raw_of,
    still,
)
from schedbed.scheduler.policy import HeartbeatWatch
from schedbed.scheduler.sizes import TRUE_SIZES, Sizes
from schedbed.tasks.parts import Part
from schedbed.tasks.specs import Counters, JobSpec, TaskKind


class Proxies(dict[Any, Any]):
    """Proxies of the core's objects, each created at the first lookup.

    Proxies of jobs in `withheld`, which avoid the offered node, show no task to start.
    """

    def __init__(self, sizes: Sizes = TRUE_SIZES, seed: int = 0) -> None:
        super().__init__()
        self._sizes, self._seed = sizes, seed
        self.withheld: dict[Job, None] = {}

    def __missing__(self, raw: Any) -> Any:
        proxy = self[raw] = _PROXIES[type(raw)](self, raw)
        return proxy

    def withhold(self, job: Job) -> None:
        """Withhold the tasks of a job that avoids the offered node, until `offer_all` is called."""
        self.withheld[job] = None
        put(self[job], "__class__", _WithheldJobProxy)
        for stage in job.stages:
            put(self[stage], "__class__", _WithheldStageProxy)

    def offer_all(self) -> None:
        """Show the tasks of all withheld jobs to the policy again."""
        for job in self.withheld:
            put(self[job], "__class__", JobProxy)
            for stage in job.stages:
                put(self[stage], "__class__", StageProxy)
        self.withheld.clear()

    def raw(self, proxy: Any, kind: type) -> Any:
        """Return the core's object of type `kind` behind a current `proxy`, or None if there is none."""
        if not isinstance(proxy, Proxy):
            return None
        raw = raw_of(proxy)
        return raw if type(raw) is kind and self.get(raw) is proxy else None

    def spec(self, job: JobSpec) -> JobSpec:
        """Return the job's specification with read-only parameters and possibly hidden costs."""
        return self._sizes.shown(replace(job, params=frozen(job.params)), self._seed)

    def forget(self, job: Job) -> None:
        """Drop the proxies of an ended job and its tasks. While attempts are being killed, keep the job's."""
        for stage in job.stages:
            for task in stage.tasks:
                self.pop(task, None)
            if not job.attempts:
                self.pop(stage, None)
        if not job.attempts:
            self.pop(job, None)


class JobsProxy(MapProxy):
    """A read-only dictionary from job id to proxy. Iteration skips the jobs that avoid the offered node."""

    __slots__ = ("__proxies", "__raw")

    def __init__(self, proxies: Proxies, raw: Mapping[str, Any]) -> None:
        super().__init__(proxies, raw)
        put(self, "_JobsProxy__proxies", proxies)
        put(self, "_JobsProxy__raw", raw)

    def __iter__(self) -> Iterator[str]:
        withheld = self.__proxies.withheld
        if not withheld:
            return iter(self.__raw)
        return iter([key for key, job in self.__raw.items() if job not in withheld])

    def __len__(self) -> int:
        return len(self.__raw) - len(self.__proxies.withheld)

    def values(self) -> Any:
        """Return the proxies of the jobs that do not avoid the offered node, in the order of submission."""
        proxies = self.__proxies
        withheld = proxies.withheld
        if not withheld:
            return tuple(map(proxies.__getitem__, self.__raw.values()))
        return tuple([proxies[job] for job in self.__raw.values() if job not in withheld])

    def items(self) -> Any:
        """Return (id, proxy) of each job that does not avoid the offered node, by submission."""
        return tuple([(job.job, job) for job in self.values()])


class TallyProxy(Proxy):
    """A read-only proxy of the counters of a user or queue. Implements `TallyView`."""

    __slots__ = ()
    name = live("name")
    running = live("running")
    killing = live("killing")
    unstarted = live("unstarted")


class TaskProxy(Proxy):
    """A read-only proxy of a task. Implements `TaskView`."""

    __slots__ = ()
    task = live("task")
    kind = live("stage.kind")
    index = live("index")
    split = live("split")
    hosts = live("hosts")
    racks = live("racks")
    state = live("state")
    failures = live("failures")

    @property
    def job(self) -> Any:
        return proxies_of(self)[raw_of(self).stage.job]

    @property
    def stage(self) -> Any:
        """Implement `TaskView.stage`: return the proxy of the task's stage."""
        return proxies_of(self)[raw_of(self).stage]

    @property
    def part(self) -> Part | None:
        """Return a read-only copy of the part, or None."""
        part: Part | None = raw_of(self).part
        return None if part is None else still(part)

    @property
    def attempts(self) -> tuple[Any, ...]:
        proxies = proxies_of(self)
        return tuple([proxies[attempt] for attempt in raw_of(self).attempts])


class AttemptProxy(Proxy):
    """A read-only proxy of an attempt. Implements `AttemptView`."""

    __slots__ = ("node", "task")

    def __init__(self, proxies: Proxies, raw: Attempt) -> None:
        super().__init__(proxies, raw)
        put(self, "task", proxies[raw.task])
        put(self, "node", proxies[raw.node])

    attempt = live("attempt")
    serial = live("serial")
    assigned_s = live("assigned_s")
    speculative = live("speculative")
    state = live("state")
    started_s = live("started_s")
    progress = live("progress")
    phase = live("phase")
    locality = live("locality")
    end_s = live("end_s")
    reason = live("reason")

    @property
    def counters(self) -> Counters:
        """Return a read-only copy."""
        return still(raw_of(self).counters)


class StageProxy(Proxy):
    """A read-only proxy of a stage. Implements `StageView`."""

    __slots__ = ("_tasks", "demand", "kind", "queue", "user")

    def __init__(self, proxies: Proxies, raw: Stage) -> None:
        super().__init__(proxies, raw)
        put(self, "_tasks", ())
        put(self, "kind", raw.kind)
        put(self, "demand", replace(raw.demand))
        put(self, "user", proxies[raw.user])
        put(self, "queue", proxies[raw.queue])

    total = live("total")
    unstarted = live("unstarted")
    running = live("running")
    killing = live("killing")
    done = live("done")
    ready = live("ready")

    @property
    def tasks(self) -> tuple[Any, ...]:
        """Implement `StageView.tasks`: return the proxies of the stage's tasks."""
        raw = raw_of(self).tasks
        if len(self._tasks) != len(raw):
            proxies = proxies_of(self)
            put(self, "_tasks", tuple([proxies[task] for task in raw]))
        return self._tasks


class _WithheldStageProxy(StageProxy):
    """The proxy of a stage of a job that avoids the offered node. Its attribute `ready` is always false."""

    __slots__ = ()
    ready = property(lambda _: False)


def _finder(name: str) -> Any:
    """Return a method that calls the job's method `name`, and returns the proxy of the task found, or None."""

    def find(self: JobProxy, *arguments: Any) -> Any:
        task = getattr(raw_of(self), name)(*arguments)
        return None if task is None else proxies_of(self)[task]

    return find


class JobProxy(Proxy):
    """A read-only proxy of a job. Implements `JobView`."""

    __slots__ = (
        "_spec",
        "attempts",
        "deadline_s",
        "excluded",
        "job",
        "maps",
        "master",
        "priority",
        "queue",
        "reduces",
        "serial",
        "stages",
        "submit_s",
        "user",
    )

    def __init__(self, proxies: Proxies, raw: Job) -> None:
        super().__init__(proxies, raw)
        put(self, "job", raw.job)
        put(self, "user", raw.user)
        put(self, "queue", raw.queue)
        put(self, "priority", raw.priority)
        put(self, "submit_s", raw.submit_s)
        put(self, "deadline_s", raw.deadline_s)
        put(self, "serial", raw.serial)
        put(self, "_spec", (None, None))
        put(self, "maps", proxies[raw.maps])
        put(self, "reduces", proxies[raw.reduces])
        put(self, "master", None if raw.master is None else proxies[raw.master])
        put(self, "stages", tuple([proxies[stage] for stage in raw.stages]))
        put(self, "attempts", MapProxy(proxies, raw.attempts))
        put(self, "excluded", MappingProxyType(raw.excluded))

    active = live("active")
    state = live("state")
    finish_s = live("finish_s")

    @property
    def spec(self) -> JobSpec:
        """Implement `JobView.spec`: return a copy of the job's specification with read-only parameters."""
        raw: JobSpec = raw_of(self).spec
        if self._spec[0] is not raw:
            put(self, "_spec", (raw, proxies_of(self).spec(raw)))
        return self._spec[1]

    def stage(self, kind: TaskKind) -> Any:
        """Implement `JobView.stage`: return the proxy of the job's maps or of its reduces."""
        if kind is REDUCE:  # Comparing with a text is slower.
            return self.reduces
        return self.maps if kind is MAP or kind == "map" else self.reduces

    def asks(self) -> tuple[Any, ...]:
        """Implement `JobView.asks`: return the proxies of the stages that ask for containers."""
        proxies = proxies_of(self)
        return tuple([proxies[stage] for stage in raw_of(self).asks()])

    local_map, rack_map = _finder("local_map"), _finder("rack_map")
    free_map, any_map = _finder("free_map"), _finder("any_map")
    whole_map, any_reduce = _finder("whole_map"), _finder("any_reduce")


class _WithheldJobProxy(JobProxy):
    """The proxy of a withheld job, which avoids the offered node. Methods that find a task return None."""

    __slots__ = ()

    _nothing: Any = lambda *_: None
    local_map = rack_map = free_map = any_map = whole_map = any_reduce = _nothing


class NodeProxy(Proxy):
    """A read-only proxy of a node. Implements `NodeView`."""

    __slots__ = ("attempts", "node", "rack", "spec")

    def __init__(self, proxies: Proxies, raw: Node) -> None:
        super().__init__(proxies, raw)
        put(self, "node", raw.node)
        put(self, "rack", raw.rack)
        put(self, "spec", replace(raw.spec))
        put(self, "attempts", MapProxy(proxies, raw.attempts))

    alive = live("alive")
    running_maps = live("running_maps")
    running_reduces = live("running_reduces")
    free_memory_bytes = live("free_memory_bytes")
    free_vcores = live("free_vcores")

    @property
    def usage(self) -> Usage:
        """Return a read-only copy."""
        return still(raw_of(self).usage)

    def free_slots(self, kind: TaskKind) -> int:
        """Implement `NodeView.free_slots`; the kind may be the string `map` or `reduce`."""
        return raw_of(self).free_slots(MAP if kind == "map" else kind)


class ViewProxy(Proxy):
    """A read-only proxy of the ledger, which contains the core's state. Implements `View`."""

    __slots__ = ("jobs", "nodes", "random", "records_skips", "seed", "sizes")

    def __init__(self, proxies: Proxies, raw: Ledger) -> None:
        super().__init__(proxies, raw)
        put(self, "records_skips", raw.records_skips)
        put(self, "seed", raw.seed)
        put(self, "random", raw.random)
        put(self, "sizes", raw.sizes)
        put(self, "jobs", JobsProxy(proxies, raw.jobs))
        put(self, "nodes", MapProxy(proxies, raw.nodes))

    now_s = live("now_s")
    beats = live("beats")
    pooled = live("pooled")

    def slots(self, kind: TaskKind) -> int:
        """Implement `View.slots`; the kind may be the string `map` or `reduce`."""
        return raw_of(self).slots(MAP if kind == "map" else kind)

    def fits(self, node: Any, stage: Any) -> bool:
        """Implement `View.fits`. Raises TypeError for wrong types."""
        return raw_of(self).fits(_core(node, Node), _core(stage, Stage))

    def avoids(self, job: Any, node: Any, kind: TaskKind) -> bool:
        """Implement `View.avoids`. Raises TypeError for wrong types."""
        return raw_of(self).avoids(_core(job, Job), _core(node, Node), MAP if kind == "map" else kind)

    def skip(self, node: Any, job: Any, kind: TaskKind, reason: str) -> None:
        """Record that the job declined the node. A long reason is cut. Raises TypeError for wrong types."""
        if type(reason) is not str:
            raise TypeError(f"skip: the reason {reason!r} is no text")
        raw_of(self).skip(_core(node, Node), _core(job, Job), MAP if kind == "map" else kind, clean(reason))


def _core(proxy: Any, kind: type) -> Any:
    """Return the core's object behind `proxy`. Raises TypeError for another type."""
    raw = raw_of(proxy) if isinstance(proxy, Proxy) else None
    if type(raw) is not kind:
        raise TypeError(f"{proxy!r} is no {kind.__name__.lower()} of this view")
    return raw


_PROXIES: dict[type, Callable[[Proxies, Any], Proxy]] = {
    Tally: TallyProxy,
    Task: TaskProxy,
    EmptyTask: TaskProxy,
    MasterTask: TaskProxy,
    Attempt: AttemptProxy,
    Stage: StageProxy,
    Job: JobProxy,
    Node: NodeProxy,
    Ledger: ViewProxy,
}
JOB_PROXIES = (JobProxy, _WithheldJobProxy)


# Proxies that detect whether a policy reads values from heartbeats, for simulations that skip heartbeats.
#
# A simulation skips heartbeats that report no change. They would only update the number of heartbeats, the
# usage of a node, and the report on a running attempt: its progress, phase, start time, and whether it runs
# already. All other values change only by simulated events.


class WatchedProxies(Proxies):
    """The read-only proxies of one run. They notify `watch` when a policy reads a value from heartbeats."""

    def __init__(self, watch: HeartbeatWatch, sizes: Sizes, seed: int) -> None:
        super().__init__(sizes, seed)
        self.watch = watch

    def __missing__(self, raw: Any) -> Any:
        watched = _WATCHED.get(type(raw))
        if watched is None:
            return super().__missing__(raw)
        proxy = self[raw] = watched(self, raw)
        return proxy


def _note(proxy: Proxy) -> Any:
    """Note that the policy reads a value from heartbeats: raise HeartbeatRead, or TypeError after the run."""
    proxies_of(proxy).watch.note()


class _WatchedAttemptProxy(AttemptProxy):
    """Raises HeartbeatRead for progress, phase, the state while running, and the start before the end."""

    __slots__ = ()
    progress = property(_note)
    phase = property(_note)

    @property
    def state(self) -> str:
        """Implement `AttemptView.state`. A read while the attempt is assigned or running raises HeartbeatRead."""
        state = raw_of(self).state
        if state is ASSIGNED or state is RUNNING:
            _note(self)
        return state

    @property
    def started_s(self) -> float | None:
        """Implement `AttemptView.started_s`. A read before the attempt's end was reported raises HeartbeatRead."""
        raw: Attempt = raw_of(self)
        if raw.state not in (SUCCEEDED, FAILED, COMMITTING):
            _note(self)
        return raw.started_s


class _WatchedNodeProxy(NodeProxy):
    """The proxy of a node. A read of the node's usage raises HeartbeatRead."""

    __slots__ = ()

    @property
    def usage(self) -> Usage:
        """Raise HeartbeatRead, after a note to the `HeartbeatWatch`."""
        return _note(self)


class _WatchedViewProxy(ViewProxy):
    """The proxy of the view. A read of the number of heartbeats raises HeartbeatRead."""

    __slots__ = ()
    beats = property(_note)


_WATCHED = {Attempt: _WatchedAttemptProxy, Node: _WatchedNodeProxy, Ledger: _WatchedViewProxy}
