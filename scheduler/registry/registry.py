"""Which policies there are, by hand, and how a SPEC becomes one (see the contract, Policy SPEC)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from schedbed.scheduler.admission.containers import Containers
from schedbed.scheduler.admission.fgcs import DEMAND, IO_RATES, Fgcs
from schedbed.scheduler.admission.load import LoadTags
from schedbed.scheduler.admission.slots import Slots
from schedbed.scheduler.locality.delay import Delay
from schedbed.scheduler.locality.greedy import Greedy
from schedbed.scheduler.locality.split import Split
from schedbed.scheduler.models.aria_bounds import BOUNDS
from schedbed.scheduler.models.fgcs_demand import read_demands
from schedbed.scheduler.models.job_profile import JobProfile
from schedbed.scheduler.models.resource_profiles import RESOURCES, read_profile
from schedbed.scheduler.order.capacity import Capacity
from schedbed.scheduler.order.fair import Fair
from schedbed.scheduler.order.fifo import Fifo
from schedbed.scheduler.policies.aria import PROFILES, Aria
from schedbed.scheduler.policies.csla import LoadAware
from schedbed.scheduler.policies.explained import Explained
from schedbed.scheduler.policies.ras import Ras
from schedbed.scheduler.policy import Composed, Policy
from schedbed.scheduler.registry.parameters import (
    Parameter,
    at_least_one,
    choice,
    count,
    duration,
    hint,
    maybe_rate,
    maybe_share,
    number,
    percent,
    pools,
    positive,
    queues,
    read_parameters,
    share,
    size,
    switch,
)
from schedbed.scheduler.registry.policy_spec import ParsedSpec, parse_spec
from schedbed.scheduler.registry.profile_parameters import profiles, with_store
from schedbed.scheduler.registry.user_file import is_policy_file, load_policy_file
from schedbed.tasks.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One implementation of an axis; `factory` takes the parameters' arguments."""

    factory: Callable[..., Any]
    summary: str
    paper: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A published policy as a choice on each axis; its parameters are those of its axes."""

    summary: str
    paper: str
    order: str
    locality: str = "greedy"
    admission: str = "slots"

    @property
    def axes(self) -> dict[str, str]:
        """Implementation by axis."""
        return {"order": self.order, "locality": self.locality, "admission": self.admission}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Of all its axes."""
        return tuple(p for axis, name in self.axes.items() for p in AXES[axis][name].parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A published policy that decides on all three axes at once, and so cannot be composed."""

    factory: Callable[..., Policy]
    summary: str
    paper: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def axes(self) -> dict[str, str]:
        """None of its own."""
        return {}


AXES: dict[str, dict[str, Axis]] = {
    "order": {
        "fifo": Axis(
            factory=Fifo, summary="priority, then submit time", paper="Hadoop JobQueueTaskScheduler"
        ),
        "fair": Axis(
            factory=Fair,
            summary="pools by min share and weight, fair or FIFO inside",
            paper="Hadoop fair scheduler (HFS); xu2015 chapter 3",
            parameters=(
                pools("settings by pool name: weight, min_share (slots of each kind), inside (fair, fifo)"),
                choice("pool_by", ("user", "queue"), "what makes a pool"),
                choice("inside", ("fair", "fifo"), "order of jobs in a pool that `pools` does not name"),
                duration("min_share_timeout", "off", "pre-empt for a pool below its min share for so long"),
                duration(
                    "fair_share_timeout", "off", "pre-empt for a pool below half its fair share for so long"
                ),
            ),
        ),
        "capacity": Axis(
            factory=Capacity,
            summary="queues with a guaranteed share, elastic, with user limits",
            paper="Hadoop capacity scheduler; lakshmi2019",
            parameters=(
                queues(
                    "settings by queue name: capacity (guaranteed, % of the cluster), max_capacity (%), "
                    "minimum_user_limit_percent, user_limit_factor, priorities; other queues share the rest"
                ),
                number(
                    "minimum_user_limit_percent",
                    "100",
                    "%",
                    "what a user may hold of a queue however many users it has",
                    percent,
                ),
                number(
                    "user_limit_factor", "1", "", "times a queue's capacity that one user may hold", positive
                ),
                number("priorities", "true", "", "jobs of a queue go by priority first", switch),
                size("map_slot_memory", "off", "memory of a map slot: larger maps take several"),
                size("reduce_slot_memory", "off", "memory of a reduce slot: larger reduces take several"),
            ),
        ),
    },
    "locality": {
        "greedy": Axis(factory=Greedy, summary="the nearest map there is, at once", paper="Hadoop"),
        "delay": Axis(
            factory=Delay,
            summary="waits a little for a node that holds the data",
            paper="Zaharia et al. 2010, Algorithm 3; xu2015 Algorithm 1 with P = 0",
            parameters=(
                duration("node_wait", "5s", "T1: until a rack-local map may start"),
                duration("rack_wait", "5s", "T2: from then until any map may start"),
            ),
        ),
        "split": Axis(
            factory=Split,
            summary="starts a part of a map at once, its rest waits for a node that holds the data",
            paper="xu2015, Algorithm 1",
            parameters=(
                maybe_share("p", "0.25", "share of a map's bytes that is started at once; auto learns it"),
                duration("node_wait", "5s", "T1: until a rack-local map may start whole"),
                duration("rack_wait", "5s", "T2: from then until any map may start whole"),
                number(
                    "keep_copy", "false", "", "what is fetched of a block stays there as a replica", switch
                ),
                number(
                    "copy_budget", "0.2", "", "share of the inputs' bytes that such replicas may take", share
                ),
            ),
        ),
    },
    "admission": {
        "slots": Axis(factory=Slots, summary="typed map and reduce slots", paper="Hadoop MRv1"),
        "containers": Axis(
            factory=Containers,
            summary="memory and vcores of each task",
            paper="Hadoop YARN",
            parameters=(
                count("reserved_cores", "0", "of each node, for daemons", "cores"),
                duration("stall_timeout", "10s", "until maps without room take that of their job's reduces"),
            ),
        ),
        "load": Axis(
            factory=LoadTags,
            summary="load tags: CPU-heavy and IO-heavy tasks keep off nodes that will be busy so",
            paper="lakshmi2019",
            parameters=(
                choice("room", ("slots", "containers"), "what else a task needs of the node"),
                number("sample_maps", "3", "", "finished maps that a job's tag is made from", at_least_one),
                number("cpu_share", "0.5", "", "of a core, above which a job is CPU-heavy", share),
                number(
                    "io_share",
                    "0.05",
                    "",
                    "of the node's disk rate, above which a job is IO-heavy (5 MB/s of 100 MB/s)",
                    share,
                ),
                number("busy_share", "0.5", "", "of a node's CPU or disk, above which it is busy", share),
                number("window", "10", "heartbeats", "that a node's load is predicted from", at_least_one),
            ),
        ),
        "fgcs": Axis(
            factory=Fgcs,
            summary="memory, and the share of a core that tasks of the same job name have used",
            paper="liu2015",
            parameters=(
                count("reserved_cores", "1", "of each node, for daemons (3.)", "cores"),
                duration("shortest", "5s", "a sample's tasks that run for less ask for a whole core (2.3)"),
                maybe_rate("disk_rate", "full speed of a disk (equation 3): as measured, else as declared"),
                maybe_rate("hdfs_rate", "full speed of the block store: as measured, else that of the disk"),
                profiles(DEMAND, IO_RATES, parse=read_demands),
                duration("stall_timeout", "10s", "until maps without room take that of their job's reduces"),
            ),
        ),
    },
}

POLICIES: dict[str, Named | Whole] = {
    "fifo": Named(
        summary="Priority, then submit time; nearest map first.",
        paper="Hadoop JobQueueTaskScheduler",
        order="fifo",
    ),
    "fair": Named(
        summary="Pools share slots by min share and weight; nearest map first.",
        paper="Hadoop fair scheduler (HFS); xu2015 chapter 3",
        order="fair",
    ),
    "delay": Named(
        summary="Fair, and a job waits a little for a node that holds its data.",
        paper="Zaharia et al. 2010; xu2015 3.2, Algorithm 1 with P = 0",
        order="fair",
        locality="delay",
    ),
    "dtss": Named(
        summary="Fair, and a job without data here starts a part of a map, whose rest waits for its data.",
        paper="xu2015, Algorithm 1",
        order="fair",
        locality="split",
    ),
    "fgcs": Named(
        summary="Delay, and a task gets the share of a core that its like have used.",
        paper="liu2015",
        order="fair",
        locality="delay",
        admission="fgcs",
    ),
    "capacity": Named(
        summary="Queues with a guaranteed share that grow into idle slots; nearest map first.",
        paper="Hadoop capacity scheduler; lakshmi2019",
        order="capacity",
    ),
    "csla": Named(
        summary="Capacity, and tasks keep off nodes that will be short of what they need most.",
        paper="lakshmi2019, Algorithm 1",
        order="capacity",
        admission="load",
    ),
    "ras": Whole(
        factory=Ras,
        summary="Tasks placed by what they use of a node, so that the job worst off gains most.",
        paper="polo2011",
        parameters=(
            duration("cycle", "10s", "from one placement to the next (3.2: tens of seconds)"),
            count("rounds", "10", "that a placement is improved at most (Algorithm 1, line 9)", least=1),
            count("capacity", "100", "of a node's CPU and disk that tasks are placed on", "%", least=1),
            count("steps", "100", "of a placement in one tick: a node or a job each", least=1),
            profiles(RESOURCES, parse=read_profile),
            duration("stall_timeout", "10s", "until maps without room take that of their job's reduces"),
        ),
    ),
    "aria": Whole(
        factory=Aria,
        summary="As many slots for each job as its deadline asks, earliest deadline first.",
        paper="verma2011, Algorithm 1",
        parameters=(
            choice("bound", BOUNDS, "the estimate of the completion that is held against the deadline"),
            choice(
                "spare",
                ("all", "deadline", "others", "none"),
                "who gets slots that no job with a deadline lacks: jobs with a deadline, those without, all",
            ),
            profiles(PROFILES, parse=JobProfile.from_json),
        ),
    ),
}


def build_policy(spec: str | Mapping[str, Any], *, scale: float = 1.0, store: str = "store") -> Policy:
    """The policy that SPEC describes, its times multiplied by `scale`; BadInput in one line when it is none.

    `store` is the profile store of a policy that names none: the user's own (store), none, or a path.
    """
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is not None:
        return _compose(parsed, scale, store)
    if is_policy_file(parsed.name):
        return load_policy_file(parsed.name, parsed.parameters, scale)
    named = POLICIES.get(parsed.name)
    if named is None:
        raise BadInput(f"policy {parsed.name!r} is unknown{hint(parsed.name, POLICIES)}")
    where = f"policy {parsed.name}"
    given = with_store(named.parameters, parsed.parameters, store)
    values = read_parameters(where, named.parameters, given, scale)
    if isinstance(named, Whole):
        return named.factory(**values)
    parts: dict[str, Any] = {}
    for axis, name in named.axes.items():
        choice_ = AXES[axis][name]
        parts[axis] = choice_.factory(**{p.argument: values[p.argument] for p in choice_.parameters})
    return _checked(where, **parts)


def reads_store(spec: str | Mapping[str, Any]) -> bool:
    """Whether the policy takes what it knows of jobs from the profile store that it is given."""
    parsed = parse_spec(spec, tuple(AXES))
    if parsed.axes is not None:
        asked = [(AXES[axis][name].parameters, given) for axis, (name, given) in parsed.axes.items()]
    else:
        asked = [(POLICIES[parsed.name].parameters, parsed.parameters)] if parsed.name in POLICIES else []
    return any(with_store(parameters, given, "none") != given for parameters, given in asked)


def _compose(parsed: ParsedSpec, scale: float, store: str) -> Policy:
    axes = parsed.axes or {}
    parts: dict[str, Any] = {}
    for axis, default in (("order", "fifo"), ("locality", "greedy"), ("admission", "slots")):
        name, given = axes.get(axis, (default, {}))
        known = AXES[axis].get(name)
        if known is None:
            if isinstance(POLICIES.get(name), Whole):
                raise BadInput(f"policy: {name} decides on all three axes: give it alone, not as {axis}")
            raise BadInput(f"policy: {axis} {name!r} is unknown{hint(name, AXES[axis])}")
        given = with_store(known.parameters, given, store)
        values = read_parameters(f"policy: {axis} {name}", known.parameters, given, scale)
        parts[axis] = known.factory(**values)
    return _checked("policy", **parts)


def _checked(where: str, *, order: Any, locality: Any, admission: Any) -> Policy:
    if isinstance(order, Fair) and order.preempts and not admission.limits.slots:
        raise BadInput(f"{where}: pre-emption counts slots, so it needs admission=slots")
    if isinstance(order, Capacity) and not admission.limits.slots:
        if order.sizes_slots:
            raise BadInput(f"{where}: slot memory sizes slots, so it needs admission=slots")
        order.count_memory()
    if isinstance(admission, LoadTags):
        return LoadAware(order, locality, admission)
    composed = Explained if Explained.suits(order, locality, admission) else Composed
    return composed(order, locality, admission)
