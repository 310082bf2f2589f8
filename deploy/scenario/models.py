"""Models of the keys in a scenario file: one per mapping; unknown keys are errors.

Checks that need several keys are in `deploy.scenario.resolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from schedbed.cluster.spec import BY_HOST
from schedbed.deploy.scenario.draw_models import Generated
from schedbed.deploy.scenario.fault_models import Faults
from schedbed.deploy.scenario.scalars import (
    Count,
    DiskName,
    Duration,
    Factor,
    Heartbeat,
    HostName,
    Latency,
    Number,
    Positive,
    Rate,
    Section,
    Share,
    Size,
    Slots,
    Stretch,
    Text,
    as_list,
    says,
)
from schedbed.deploy.scenario.sections import Disk, Dynamic, Foreground, FrameworkModel, Measure, Memory
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


class NodeDefaults(Section):
    """`cluster.node`: the hardware and the slots of each node."""

    cores: Annotated[Positive, says("emulated cores")] = 2
    core_speed: Annotated[Factor, says("share of a host's core that each emulated core gets")] = 0.1
    memory: Memory = 512 * 2**20
    disk: Disk = 40e6
    shared_disk: Annotated[
        DiskName | None, says("name of the disk, which nodes that give the same share")
    ] = None
    network: Annotated[Rate, says("rate of the NIC, in each direction")] = 12.5e6
    latency: Annotated[Latency, says("added to each message and transfer of the NIC")] = 0.0
    loss: Annotated[Share, says("share of the NIC's packets that is lost")] = 0.0
    host: Annotated[HostName | None, says("host of a run over many that must hold the node")] = None
    foreground: Foreground = 0.0
    map_slots: Annotated[Slots, says("maps that run at a time")] = 2
    reduce_slots: Annotated[Slots, says("reduces that run at a time")] = 1


class NodeGroup(Section):
    """An entry of the list `cluster.nodes`: `count` equal nodes.

    A key that is given here replaces the value in `cluster.node`.
    """

    count: Annotated[Positive, says("nodes of the group")] = 1
    rack: Annotated[Text | None, says("name of the group's rack")] = None
    cores: Annotated[Positive | None, says("emulated cores")] = None
    core_speed: Annotated[Factor | None, says("share of a host's core that each emulated core gets")] = None
    memory: Annotated[Memory | None, says("memory of the nodes, or with what their disks lose beyond it")] = (
        None
    )
    disk: Annotated[Disk | None, says("rate of the disks, or with what further streams take")] = None
    shared_disk: Annotated[
        DiskName | None, says("name of the disk, which nodes that give the same share")
    ] = None
    network: Annotated[Rate | None, says("rate of the NIC, in each direction")] = None
    latency: Annotated[Latency | None, says("added to each message and transfer of the NIC")] = None
    loss: Annotated[Share | None, says("share of the NIC's packets that is lost")] = None
    host: Annotated[HostName | None, says("host of a run over many that must hold the nodes")] = None
    foreground: Annotated[
        Foreground | None, says("other work on shared nodes, ahead of all tasks: a share of their CPU")
    ] = None
    map_slots: Annotated[Slots | None, says("maps that run at a time")] = None
    reduce_slots: Annotated[Slots | None, says("reduces that run at a time")] = None


def _nodes_form(value: object) -> str:
    return "groups" if isinstance(value, list) else "count"


def _racks_form(value: object) -> str:
    return "by_host" if value == BY_HOST else "count"


class ClusterModel(Section):
    """`cluster`: the nodes n1 to nN, in racks r1 to rK in turn unless groups of nodes name their racks.

    With `racks: by-host`, the nodes on the same host of the Ray cluster form a rack. With `topology`, each
    host listed in a Rumen topology file or an SLS node file becomes a node, in the rack listed for the host.
    """

    nodes: Annotated[
        Annotated[Positive, Tag("count")] | Annotated[list[NodeGroup], Field(min_length=1), Tag("groups")],
        Discriminator(_nodes_form),
        says("number of nodes, or a list of groups"),
    ] = 6
    racks: Annotated[
        Annotated[Positive, Tag("count")] | Annotated[Literal["by-host"], Tag("by_host")],
        Discriminator(_racks_form),
        says("number of racks that nodes are dealt over, or by-host"),
    ] = 1
    topology: Annotated[
        Text | None, says("file of a Rumen topology or of SLS nodes, instead of nodes and racks")
    ] = None
    uplink: Annotated[
        Rate | None,
        BeforeValidator(_none_word),
        says("rate that a rack's nodes share towards other racks, or none"),
    ] = None
    downlink: Annotated[
        Annotated[Rate, Field(gt=0)] | None,
        BeforeValidator(_none_word),
        says("rate that a rack's nodes share from other racks, or none"),
    ] = None
    core_switch: Annotated[
        Annotated[Rate, Field(gt=0)] | None,
        BeforeValidator(_none_word),
        says("rate that all racks share between each other, or none"),
    ] = None
    node: Annotated[NodeDefaults, says("what each node has")] = NodeDefaults()
    heartbeat: Annotated[Heartbeat, says("interval of a node's heartbeats; not scaled")] = 0.5
    limits: Annotated[
        Literal["auto", "cgroup", "software", "off"],
        says("how limits are enforced: by the kernel, by pacing, or not at all"),
    ] = "auto"


class Skewed(Section):
    """`placement: {skewed: 0.2}`: all input is stored on this share of the nodes."""

    skewed: Annotated[Factor, says("share of the nodes that hold all input")]


def _placement_form(value: object) -> str:
    return "skew" if isinstance(value, dict | Skewed) else "name"


class Blocks(Section):
    """`blocks`: the size of blocks, and the number and the placement of their replicas."""

    size: Annotated[Size, says("size of a block")] = 64 * 2**20
    replication: Annotated[Positive, says("replicas of each block")] = 3
    placement: Annotated[
        Annotated[Literal["hdfs", "even"], Tag("name")] | Annotated[Skewed, Tag("skew")],
        Discriminator(_placement_form),
        says("where replicas go: hdfs, even, or skewed"),
    ] = "hdfs"
    dynamic: Annotated[Dynamic, says("replicas made while jobs run: none, dare, scarlett or cdrm")] = "none"


class Generate(Section):
    """`input: {generate: text, size: 1GiB, seed: 1}`: generated data. The default seed is the scenario's."""

    generate: Annotated[InputKind, says("kind of data")]
    size: Annotated[Size, says("size of the data")]
    seed: Annotated[
        Annotated[int, Field(strict=True)] | None, says("seed of the data; the scenario's unless given")
    ] = None


def _input_form(value: object) -> str:
    return "generated" if isinstance(value, dict | Generate) else "file"


class Phase(Section):
    """`map` or `reduce` of a job. Only `memory` and `vcores` apply to jobs that are not synthetic."""

    cpu: Annotated[Duration | None, says("CPU time of one emulated core that a task burns")] = None
    read: Annotated[Size | None, says("what a task reads")] = None
    write: Annotated[Size | None, says("what a task writes")] = None
    duration: Annotated[
        Duration | None,
        says("time that a task takes in the simulator, as a trace has it; cpu and bytes count live"),
    ] = None
    variance: Annotated[
        float, Number, Field(ge=0, le=10), says("spread of the tasks' CPU time, 0 for none")
    ] = 0.0
    memory: Annotated[Size | None, says("memory that a task declares")] = None
    vcores: Annotated[Positive, says("vcores that a task declares")] = 1


Priorities = Literal["very_high", "high", "normal", "low", "very_low"]


class JobModel(Section):
    """An entry of `workload.jobs`. With `count`, that number of copies of the job is submitted together."""

    name: Annotated[Text | None, says("name of the job; the application's unless given")] = None
    app: Annotated[
        Text,
        says("application: one of schedbed apps, path/to/app.py:NAME, or streaming with its commands"),
    ]
    mapper: Annotated[Text | None, says("streaming: command that gets the lines of a split")] = None
    combiner: Annotated[
        Text | None, says("streaming: command that gets a map's sorted lines before the shuffle")
    ] = None
    reducer: Annotated[Text | None, says("streaming: command that gets the sorted lines of its keys")] = None
    files: Annotated[
        list[Text], says("more files that a class or a command finds in its working folder")
    ] = []
    folder: Annotated[
        Text | None,
        says("folder in which the application's files are looked for; the scenario's unless given"),
    ] = None
    costs: Annotated[
        dict[str, Any] | None,
        says("what an own application costs in the simulator; measured on a sample unless given"),
    ] = None
    input: Annotated[
        Annotated[
            Annotated[Text, Tag("file")] | Annotated[Generate, Tag("generated")],
            Discriminator(_input_form),
        ]
        | None,
        says("file, or what to generate"),
    ] = None
    maps: Annotated[Positive | None, says("number of maps of a job without input")] = None
    map: Annotated[Phase, says("what each map of a synthetic job does")] = Phase()
    reduces: Annotated[Count | None, says("number of reduces")] = None
    reduce: Annotated[Phase, says("what each reduce of a synthetic job does")] = Phase()
    user: Annotated[Text, says("who submits")] = "user"
    queue: Annotated[Text, says("queue for policies with queues")] = "default"
    submit: Annotated[Duration, says("when the job is submitted, from the run's start")] = 0.0
    deadline: Annotated[Duration | None, says("when the job should be done, from its submission")] = None
    requested: Annotated[
        Duration | None, says("run time that the user expects at most, for policies that reserve (easy)")
    ] = None
    priority: Annotated[Priorities, BeforeValidator(_lower), says("priority of the job")] = "normal"
    count: Annotated[
        int, Field(strict=True, ge=1, le=10_000), says("copies of the job, submitted together")
    ] = 1
    params: Annotated[dict[str, Any], says("parameters of the application")] = {}


class Select(Section):
    """`workload.select`: the jobs of a trace to run. Times are those in the trace, before `scale`."""

    jobs: Annotated[Positive | None, says("number of jobs to take")] = None
    from_: Annotated[Duration, Field(alias="from"), says("take jobs from this time of the trace on")] = 0.0
    until: Annotated[Duration | None, says("take jobs up to this time of the trace")] = None


class Workload(Section):
    """`workload`: the jobs to run, as a list, a suite's name, a law to draw jobs from, or a trace file."""

    jobs: Annotated[Annotated[list[JobModel], Field(min_length=1)] | None, says("list of jobs")] = None
    suite: Annotated[Text | None, says("name of a shipped suite, see schedbed suites")] = None
    generate: Annotated[Generated | None, says("law that jobs are drawn from")] = None
    trace: Annotated[Text | None, says("file of a trace")] = None
    format: Annotated[TraceFormatName | None, says("format of the trace; found out unless given")] = None
    select: Annotated[Select, says("what to take of the trace")] = Select()
    traced_nodes: Annotated[
        Positive | None, says("nodes of the traced cluster: tasks are thinned by the ratio of nodes")
    ] = None
    users: Annotated[Positive | None, says("number of users to deal jobs of a trace over")] = None
    block: Annotated[Size | None, says("bytes that a map of a trace reads, where the trace says nothing")] = (
        None
    )
    cpu_rate: Annotated[
        Rate, says("bytes that a traced task computes per second, where the trace has no CPU times")
    ] = 6.4 * 2**20
    io_rate: Annotated[
        Rate, says("bytes that a traced task moves per second, where the trace has durations only")
    ] = 50e6
    reduce_bytes: Annotated[Size, says("bytes per reduce, where the trace has no number of reduces")] = 2**30
    limit_bytes: Annotated[Size | None, says("most bytes of a traced job")] = None

    @model_validator(mode="after")
    def _one_of(self) -> Workload:
        if sum(getattr(self, source) is not None for source in SOURCES) != 1:
            raise ValueError("expected one of jobs: [...], suite: NAME, generate: {...} and trace: FILE")
        return self


SOURCES = ("jobs", "suite", "generate", "trace")
TRACE_KEYS = tuple(name for name in Workload.model_fields if name not in SOURCES)


class StragglersModel(Section):
    """`simulate.stragglers`: a random `share` of all attempts needs `factor` times the planned CPU time."""

    share: Annotated[float, Number, Field(ge=0, le=1), says("share of all attempts")] = 0.0
    factor: Annotated[float, Number, Field(ge=1, le=1000), says("factor on the CPU time of these")] = 5.0


class Profiles(Section):
    """`profiles`: the file of job measurements (profile store) that policies use by default.

    `store` is `default`, `none` or a path. With `learn`, measurements of the run are added to this file.
    """

    store: Annotated[Text, says("profile store of policies that name none: default, none or a path")] = (
        "default"
    )
    learn: Annotated[bool, Field(strict=True), says("keep what the run measures in the store")] = False


class Simulate(Section):
    """`simulate`: the source of task costs in simulated runs, and whether tasks compete for resources."""

    costs: Annotated[
        Literal["specification", "profile", "trace"] | None,
        says("where the costs of simulated tasks come from"),
    ] = None
    contention: Annotated[bool | None, says("let tasks share the CPU, disk and NIC of their nodes")] = None
    seek: Annotated[float, Number, Field(ge=0, le=10), says("seek of disks that declare none")] = 0.0
    stragglers: Annotated[StragglersModel, says("attempts that take longer than planned")] = StragglersModel()
    engine: Annotated[
        Literal["auto", "objects"], says("auto plays large runs in a compiled loop, objects none")
    ] = "auto"


class Scenario(Section):
    """The content of a scenario file."""

    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None,
        says("name of the scenario; the file's unless given"),
    ] = None
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63), says("seed of all chance")] = 0
    scale: Annotated[
        float,
        Number,
        Field(ge=1e-6, le=1000),
        says(
            "factor on every duration and amount of data: 0.05 runs the workload 20 times faster; rates stay"
        ),
    ] = 1.0
    cluster: Annotated[ClusterModel, says("the emulated cluster")] = ClusterModel()
    blocks: Annotated[Blocks, says("how files are cut and placed")] = Blocks()
    workload: Annotated[Workload | None, says("the jobs")] = None
    policies: Annotated[
        list[Any],
        Field(min_length=1),
        BeforeValidator(as_list),
        says("policies to compare: SPECs or mappings, see schedbed policies"),
    ] = ["fifo", "fair", "delay"]
    speculation: Annotated[Any, says("none, late, or late with parameters")] = "none"
    sizes: Annotated[
        Any,
        says(
            "what policies of your own see of the costs of tasks: true, hidden, estimated, or estimated with an error"
        ),
    ] = "true"
    faults: Annotated[Faults, says("faults to inject, each at a time or drawn")] = []
    profiles: Annotated[Profiles, says("the profile store")] = Profiles()
    simulate: Annotated[Simulate, says("how a simulated run is modeled")] = Simulate()
    framework: Annotated[
        FrameworkModel,
        says("what a simulated run adds to the work of tasks: none, hadoop1, yarn, or one with numbers"),
    ] = "none"
    measure: Annotated[
        Measure | None, says("jobs that figures are of; a warm-up and a cool-down are left out")
    ] = None
    repeats: Annotated[int, Field(strict=True, ge=1, le=1000), says("runs of each policy")] = 1
    stretch: Annotated[
        Stretch,
        says(
            "real seconds that an emulated one lasts live: rates and timers slow down together; auto takes the "
            "least at which this host gives what the nodes declare"
        ),
    ] = 1.0
