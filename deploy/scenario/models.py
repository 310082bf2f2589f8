"""What a scenario file may say: one pydantic model a mapping, units parsed, unknown keys refused.

Meaning that needs more than one key (does a task fit a node, is there such a node) is in `deploy.scenario.resolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from schedbed.cluster.spec import BY_HOST
from schedbed.deploy.scenario.draw_models import Generated
from schedbed.deploy.scenario.fault_models import Faults
from schedbed.deploy.scenario.scalars import (
    Count,
    Duration,
    Factor,
    Number,
    Part,
    Positive,
    Rate,
    Share,
    Size,
    Text,
    as_list,
)
from schedbed.tasks.appkit.app_catalogue import KINDS
from schedbed.tasks.traces.formats import NAMES

if TYPE_CHECKING:
    InputKind = str
    TraceFormatName = str
else:
    InputKind = Literal[tuple(KINDS)]
    TraceFormatName = Literal[NAMES]


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _none_word(value: object) -> object:
    return None if value == "none" else value


class NodeDefaults(Part):
    """`cluster.node`: what each node has."""

    cores: Positive = 2
    core_speed: Factor = 0.1
    memory: Size = 512 * 2**20
    disk: Rate = 40e6
    network: Rate = 12.5e6
    latency: Duration = 0.0
    loss: Share = 0.0
    map_slots: Count = 2
    reduce_slots: Count = 1


class NodeGroup(Part):
    """One entry of `cluster.nodes` as a list: so many nodes, in a rack, with what differs from the default."""

    count: Positive = 1
    rack: Text | None = None
    cores: Positive | None = None
    core_speed: Factor | None = None
    memory: Size | None = None
    disk: Rate | None = None
    network: Rate | None = None
    latency: Duration | None = None
    loss: Share | None = None
    map_slots: Count | None = None
    reduce_slots: Count | None = None


def _nodes_form(value: object) -> str:
    return "groups" if isinstance(value, list) else "count"


def _racks_form(value: object) -> str:
    return "by_host" if value == BY_HOST else "count"


class Cluster(Part):
    """`cluster`: nodes n1 to nN, dealt in turn over racks r1 to rK unless groups say otherwise; `by-host` makes a rack
    of the nodes on each host of the Ray cluster that a run lies over.

    With `topology`, a Rumen topology or an SLS node file, there is a node for each of its hosts in its racks.
    """

    nodes: Annotated[
        Annotated[Positive, Tag("count")] | Annotated[list[NodeGroup], Field(min_length=1), Tag("groups")],
        Discriminator(_nodes_form),
    ] = 6
    racks: Annotated[
        Annotated[Positive, Tag("count")] | Annotated[Literal["by-host"], Tag("by_host")],
        Discriminator(_racks_form),
    ] = 1
    topology: Text | None = None
    uplink: Annotated[Rate | None, BeforeValidator(_none_word)] = None
    node: NodeDefaults = NodeDefaults()
    heartbeat: Duration = 0.5
    limits: Literal["auto", "cgroup", "software", "off"] = "auto"


class Skewed(Part):
    """`placement: {skewed: 0.2}`: all input on that share of the nodes."""

    skewed: Factor


def _placement_form(value: object) -> str:
    return "skew" if isinstance(value, dict | Skewed) else "name"


class Dare(Part):
    """`dynamic: {dare: {p: 0.3, budget: 0.2}}`: so many of the maps that fetch their block leave a replica of it, which
    take that share of the inputs' bytes at most."""

    p: Factor = 0.3
    budget: Factor = 0.2


class DareChoice(Part):
    """`dynamic: {dare: ...}`."""

    dare: Dare


def _dynamic_form(value: object) -> str:
    return "dare" if isinstance(value, dict | DareChoice) else "name"


class Blocks(Part):
    """`blocks`: how files are cut and placed."""

    size: Size = 64 * 2**20
    replication: Positive = 3
    placement: Annotated[
        Annotated[Literal["hdfs", "even"], Tag("name")] | Annotated[Skewed, Tag("skew")],
        Discriminator(_placement_form),
    ] = "hdfs"
    dynamic: Annotated[
        Annotated[Literal["none", "dare"], Tag("name")] | Annotated[DareChoice, Tag("dare")],
        Discriminator(_dynamic_form),
    ] = "none"


class Generate(Part):
    """`input: {generate: text, size: 1GiB, seed: 1}`; the seed is the scenario's unless given."""

    generate: InputKind
    size: Size
    seed: Annotated[int, Field(strict=True)] | None = None


def _input_form(value: object) -> str:
    return "generated" if isinstance(value, dict | Generate) else "file"


class Phase(Part):
    """`map` or `reduce` of a job: memory and vcores of any job; the rest is what one synthetic task does."""

    cpu: Duration | None = None
    read: Size | None = None
    write: Size | None = None
    variance: Annotated[float, Number, Field(ge=0, le=10)] = 0.0
    memory: Size | None = None
    vcores: Positive = 1


Priorities = Literal["very_high", "high", "normal", "low", "very_low"]


class Job(Part):
    """One entry of `workload.jobs`; `count` copies are submitted together."""

    name: Text | None = None
    app: Text
    input: (
        Annotated[
            Annotated[Text, Tag("file")] | Annotated[Generate, Tag("generated")],
            Discriminator(_input_form),
        ]
        | None
    ) = None
    maps: Positive | None = None
    map: Phase = Phase()
    reduces: Count | None = None
    reduce: Phase = Phase()
    user: Text = "user"
    queue: Text = "default"
    submit: Duration = 0.0
    deadline: Duration | None = None
    priority: Annotated[Priorities, BeforeValidator(_lower)] = "normal"
    count: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 1
    params: dict[str, Any] = {}


class Select(Part):
    """`workload.select`: trace times are before `scale`."""

    jobs: Positive | None = None
    from_: Annotated[Duration, Field(alias="from")] = 0.0
    until: Duration | None = None


class Workload(Part):
    """`workload`: jobs, a suite's jobs, drawn jobs, or a trace with what to take from it and to assume beside it."""

    jobs: Annotated[list[Job], Field(min_length=1)] | None = None
    suite: Text | None = None
    generate: Generated | None = None
    trace: Text | None = None
    format: TraceFormatName | None = None
    select: Select = Select()
    traced_nodes: Positive | None = None
    users: Positive | None = None
    block: Size | None = None
    cpu_rate: Rate = 6.4 * 2**20
    io_rate: Rate = 50e6
    reduce_bytes: Size = 2**30
    limit_bytes: Size | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Workload:
        if sum(getattr(self, source) is not None for source in SOURCES) != 1:
            raise ValueError("expected one of jobs: [...], suite: NAME, generate: {...} and trace: FILE")
        return self


SOURCES = ("jobs", "suite", "generate", "trace")
TRACE_KEYS = tuple(name for name in Workload.model_fields if name not in SOURCES)


class Stragglers(Part):
    """`simulate.stragglers`: that share of all attempts takes `factor` times its CPU."""

    share: Annotated[float, Number, Field(ge=0, le=1)] = 0.0
    factor: Annotated[float, Number, Field(ge=1, le=1000)] = 5.0


class Profiles(Part):
    """`profiles`: the profile store of all policies that name none (`default`, `none` or a path), and whether what the
    run measures is kept there."""

    store: Text = "default"
    learn: Annotated[bool, Field(strict=True)] = False


class Simulate(Part):
    """`simulate`: what `--machines sim` takes for the tasks' costs, and whether tasks contend for their node."""

    costs: Literal["specification", "profile", "trace"] | None = None
    contention: bool | None = None
    seek: Annotated[float, Number, Field(ge=0, le=10)] = 0.0
    stragglers: Stragglers = Stragglers()
    engine: Literal["auto", "objects"] = "auto"


class Scenario(Part):
    """A whole scenario file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    scale: Annotated[float, Number, Field(gt=0, le=1000)] = 1.0
    cluster: Cluster = Cluster()
    blocks: Blocks = Blocks()
    workload: Workload | None = None
    policies: Annotated[list[Any], Field(min_length=1), BeforeValidator(as_list)] = ["fifo", "fair", "delay"]
    speculation: Any = "none"
    faults: Faults = []
    profiles: Profiles = Profiles()
    simulate: Simulate = Simulate()
    repeats: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
