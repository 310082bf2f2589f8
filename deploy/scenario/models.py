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
from schedbed.deploy.scenario.sections import (
    Changes,
    Disk,
    Dynamic,
    Foreground,
    FrameworkModel,
    Measure,
    Memory,
    Power,
    StragglersModel,
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


class NodeDefaults(Section):
    """`cluster.node`: the hardware and the slots of each node."""

    cores: Annotated[Positive, says("number of emulated CPU cores of each node")] = 2
    core_speed: Annotated[
        Factor, says("speed of each emulated core, as a share of one core of the host: 0.1 is a tenth")
    ] = 0.1
    memory: Memory = 512 * 2**20
    disk: Disk = 40e6
    shared_disk: Annotated[
        DiskName | None,
        says("name of a disk that all nodes with the same name share; each node has its own disk without it"),
    ] = None
    network: Annotated[
        Rate,
        says("rate of the node's network card in each direction, that is, for sending and for receiving"),
    ] = 12.5e6
    latency: Annotated[Latency, says("delay added to each message and each data transfer of the node")] = 0.0
    loss: Annotated[Share, says("share of the messages to and from the node that are lost: 0.01 is 1%")] = 0.0
    host: Annotated[
        HostName | None,
        says("host that must run the node, if a run uses several hosts (`--address`); any host without it"),
    ] = None
    foreground: Foreground = 0.0
    map_slots: Annotated[Slots, says("number of maps that can run on the node at the same time")] = 2
    reduce_slots: Annotated[Slots, says("number of reduces that can run on the node at the same time")] = 1
    power: Annotated[
        Power | None, says("power that each node draws, from which the energy of a run is computed")
    ] = None


class NodeGroup(Section):
    """An entry of the list `cluster.nodes`: `count` equal nodes.

    A key that is given here replaces the value in `cluster.node`.
    """

    count: Annotated[Positive, says("number of nodes in the group")] = 1
    rack: Annotated[
        Text | None,
        says("name of the rack of these nodes. Without it, nodes are assigned to `racks` in turn"),
    ] = None
    cores: Annotated[Positive | None, says("number of emulated CPU cores of each node")] = None
    core_speed: Annotated[
        Factor | None, says("speed of each emulated core, as a share of one core of the host: 0.1 is a tenth")
    ] = None
    memory: Annotated[
        Memory | None,
        says("memory of each node, or a mapping with `paging` if the disk slows when tasks declare more"),
    ] = None
    disk: Annotated[
        Disk | None,
        says("rate of each node's disk, or a mapping with `seek` if concurrent streams slow it down"),
    ] = None
    shared_disk: Annotated[
        DiskName | None,
        says("name of a disk that all nodes with the same name share; each node has its own disk without it"),
    ] = None
    network: Annotated[
        Rate | None,
        says("rate of the node's network card in each direction, that is, for sending and for receiving"),
    ] = None
    latency: Annotated[
        Latency | None, says("delay added to each message and each data transfer of the node")
    ] = None
    loss: Annotated[
        Share | None, says("share of the messages to and from the node that are lost: 0.01 is 1%")
    ] = None
    host: Annotated[
        HostName | None,
        says("host that must run the node, if a run uses several hosts (`--address`); any host without it"),
    ] = None
    foreground: Annotated[
        Foreground | None,
        says("share of each node's CPU that other work uses first, or a list of shares with start times"),
    ] = None
    map_slots: Annotated[Slots | None, says("number of maps that can run on the node at the same time")] = (
        None
    )
    reduce_slots: Annotated[
        Slots | None, says("number of reduces that can run on the node at the same time")
    ] = None
    power: Annotated[
        Power | None, says("power that each node draws, from which the energy of a run is computed")
    ] = None


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
        says("number of equal nodes, or a list of groups of nodes with different hardware"),
    ] = 6
    racks: Annotated[
        Annotated[Positive, Tag("count")] | Annotated[Literal["by-host"], Tag("by_host")],
        Discriminator(_racks_form),
        says("number of racks, which get nodes in turn, or `by-host`: one rack per host of a Ray cluster"),
    ] = 1
    topology: Annotated[
        Text | None,
        says("file with hosts and racks (Rumen topology or SLS nodes), instead of `nodes` and `racks`"),
    ] = None
    uplink: Annotated[
        Rate | None,
        BeforeValidator(_none_word),
        says("rate that a rack's nodes share for sending to other racks, by default `none` (no limit)"),
    ] = None
    downlink: Annotated[
        Annotated[Rate, Field(gt=0)] | None,
        BeforeValidator(_none_word),
        says("rate that a rack's nodes share for receiving from other racks, by default `none` (no limit)"),
    ] = None
    core_switch: Annotated[
        Annotated[Rate, Field(gt=0)] | None,
        BeforeValidator(_none_word),
        says("rate that all traffic between racks shares, by default `none` (no limit)"),
    ] = None
    node: Annotated[
        NodeDefaults, says("hardware and slots of each node, unless its group in `nodes` gives another value")
    ] = NodeDefaults()
    heartbeat: Annotated[
        Heartbeat, says("time between two heartbeats of a node to the JobTracker, not multiplied by `scale`")
    ] = 0.5
    limits: Annotated[
        Literal["auto", "cgroup", "software", "off"],
        says(
            "how a node's limits are enforced: by the kernel (`cgroup`), by software (`software`), "
            "not at all (`off`), or by the kernel where possible (`auto`)"
        ),
    ] = "auto"


class Skewed(Section):
    """`placement: {skewed: 0.2}`: all input is stored on this share of the nodes."""

    skewed: Annotated[Factor, says("share of the nodes that store all input: 0.2 is a fifth of the nodes")]


def _placement_form(value: object) -> str:
    return "skew" if isinstance(value, dict | Skewed) else "name"


class Blocks(Section):
    """`blocks`: the size of blocks, and the number and the placement of their replicas."""

    size: Annotated[Size, says("size of the blocks into which input files are divided")] = 64 * 2**20
    replication: Annotated[
        Positive,
        says("number of replicas of each block, on different nodes (by default fewer with 1 or 2 nodes)"),
    ] = 3
    placement: Annotated[
        Annotated[Literal["hdfs", "even"], Tag("name")] | Annotated[Skewed, Tag("skew")],
        Discriminator(_placement_form),
        says(
            "nodes that store replicas: by HDFS's rack rule (`hdfs`), evenly on all nodes (`even`), "
            "or only on some nodes (`skewed`)"
        ),
    ] = "hdfs"
    dynamic: Annotated[
        Dynamic,
        says("method that adds replicas while jobs run: `dare`, `scarlett` or `cdrm`, or `none`"),
    ] = "none"


class Generate(Section):
    """`input: {generate: text, size: 1GiB, seed: 1}`: generated data. The default seed is the scenario's."""

    generate: Annotated[
        InputKind,
        says("kind of data: lines of text, 100-byte records, documents, edges of a graph, or page views"),
    ]
    size: Annotated[Size, says("amount of data to generate, multiplied by `scale`")]
    seed: Annotated[
        Annotated[int, Field(strict=True)] | None,
        says("seed of the random data, by default the scenario's `seed`"),
    ] = None


def _input_form(value: object) -> str:
    return "generated" if isinstance(value, dict | Generate) else "file"


class Phase(Section):
    """`map` or `reduce` of a job. Only `memory` and `vcores` apply to jobs that are not synthetic."""

    cpu: Annotated[Duration | None, says("CPU time that each task uses on one emulated core")] = None
    read: Annotated[
        Size | None, says("amount of data that each task reads. By default, a map reads its whole block")
    ] = None
    write: Annotated[
        Size | None, says("amount of data that each task writes: map output for the reduces, or job output")
    ] = None
    duration: Annotated[
        Duration | None,
        says(
            "run time of each task in the simulator, as recorded in a trace. Live runs use `cpu`, "
            "`read` and `write` instead"
        ),
    ] = None
    variance: Annotated[
        float,
        Number,
        Field(ge=0, le=10),
        says("spread of the tasks' CPU time (standard deviation / mean): 0 for equal tasks, 0.5 for ±50%"),
    ] = 0.0
    memory: Annotated[
        Size | None,
        says("memory that each task declares, by default the smallest memory per slot of any node"),
    ] = None
    vcores: Annotated[Positive, says("number of virtual cores that each task declares")] = 1


Priorities = Literal["very_high", "high", "normal", "low", "very_low"]


class JobModel(Section):
    """An entry of `workload.jobs`. With `count`, that number of copies of the job is submitted together."""

    name: Annotated[Text | None, says("name of the job, by default the name of the application")] = None
    app: Annotated[
        Text,
        says(
            "application: a name that `schedbed apps` lists, your own class "
            "(`path/to/app.py:NAME`), or `streaming` for commands"
        ),
    ]
    mapper: Annotated[Text | None, says("for `streaming`: command that reads the lines of a split")] = None
    combiner: Annotated[
        Text | None,
        says("for `streaming`: command that combines a map's sorted output lines before the shuffle"),
    ] = None
    reducer: Annotated[
        Text | None,
        says("for `streaming`: command that reads lines sorted by key. Without it, maps write the output"),
    ] = None
    files: Annotated[
        list[Text],
        says("more files that your class or command needs, copied to the working folder of each attempt"),
    ] = []
    folder: Annotated[
        Text | None,
        says("folder with the files of your class or command, by default the folder of the scenario"),
    ] = None
    costs: Annotated[
        dict[str, Any] | None,
        says(
            "CPU time and output size of your own application in the simulator, by default measured "
            "on a sample of the input"
        ),
    ] = None
    input: Annotated[
        Annotated[
            Annotated[Text, Tag("file")] | Annotated[Generate, Tag("generated")],
            Discriminator(_input_form),
        ]
        | None,
        says("path of the input file, or a mapping that describes data to generate"),
    ] = None
    maps: Annotated[
        Positive | None, says("number of maps of a job without input. A job with input has one map per block")
    ] = None
    map: Annotated[
        Phase, says("work of each map of a synthetic job, and the memory and vcores that each map declares")
    ] = Phase()
    reduces: Annotated[
        Count | None,
        says("number of reduces, by default 1, or 0 if the application or the synthetic job has no reduce"),
    ] = None
    reduce: Annotated[
        Phase,
        says("work of each reduce of a synthetic job, and the memory and vcores that each reduce declares"),
    ] = Phase()
    user: Annotated[Text, says("name of the user who submits the job")] = "user"
    queue: Annotated[Text, says("queue of the job, used by policies with queues such as `capacity`")] = (
        "default"
    )
    submit: Annotated[
        Duration, says("time at which the job is submitted, counted from the start of the run")
    ] = 0.0
    deadline: Annotated[
        Duration | None,
        says("time by which the job should be done, counted from its submission, by default none"),
    ] = None
    requested: Annotated[
        Duration | None,
        says("longest run time that the user expects, with which the policy `easy` reserves slots"),
    ] = None
    after: Annotated[
        Text | None,
        says(
            "name of the job whose end comes before the submission: the nearest of that name listed before "
            "this job, or else after it. A job that fails or is killed has also ended"
        ),
    ] = None
    think: Annotated[
        Duration, says("time from the end of the job `after` to the submission, which `submit` may delay")
    ] = 0.0
    priority: Annotated[
        Priorities,
        BeforeValidator(_lower),
        says("priority of the job, for policies that prefer jobs of higher priority"),
    ] = "normal"
    running_map_limit: Annotated[
        Count,
        says(
            "with `framework: yarn`, largest number of the job's maps that run at a time, 0 for no limit "
            "(`mapreduce.job.running.map.limit`)"
        ),
    ] = 0
    uber: Annotated[
        bool,
        Field(strict=True),
        says(
            "with `framework: yarn`, whether the job's tasks run inside its ApplicationMaster, one after the other "
            "(`mapreduce.job.ubertask.enable`, for a job small enough)"
        ),
    ] = False
    count: Annotated[
        int,
        Field(strict=True, ge=1, le=10_000),
        says("number of copies of the job, submitted at the same time"),
    ] = 1
    params: Annotated[
        dict[str, Any], says("parameters of the application by name, as `schedbed apps` lists them")
    ] = {}


class Select(Section):
    """`workload.select`: the jobs of a trace to run. Times are those in the trace, before `scale`."""

    jobs: Annotated[
        Positive | None, says("number of jobs to take from the start of the selected times, by default all")
    ] = None
    from_: Annotated[Duration, Field(alias="from"), says("time in the trace from which jobs are taken")] = 0.0
    until: Annotated[
        Duration | None, says("time in the trace up to which jobs are taken, by default the end of the trace")
    ] = None


class Workload(Section):
    """`workload`: the jobs to run: a list, a shipped suite, jobs drawn at random, or a trace file."""

    jobs: Annotated[
        Annotated[list[JobModel], Field(min_length=1)] | None, says("list of the jobs to run")
    ] = None
    suite: Annotated[
        Text | None, says("name of a workload that comes with schedbed, as `schedbed suites` lists them")
    ] = None
    generate: Annotated[
        Generated | None,
        says("settings for jobs drawn at random: their number, submit times, sizes and deadlines"),
    ] = None
    trace: Annotated[Text | None, says("path of a trace file, whose jobs run as synthetic jobs")] = None
    format: Annotated[
        TraceFormatName | None, says("format of the trace file, recognized from its content if not given")
    ] = None
    select: Annotated[Select, says("part of the trace to run, by default all of its jobs")] = Select()
    traced_nodes: Annotated[
        Positive | None,
        says(
            "number of nodes of the traced cluster. With twice as many as yours, half of each job's "
            "tasks are kept; by default, all are kept"
        ),
    ] = None
    users: Annotated[
        Positive | None,
        says("number of users to whom a trace's jobs are assigned at random, by default those in the trace"),
    ] = None
    block: Annotated[
        Size | None,
        says("amount of data that a map reads if the trace does not record it, by default `blocks.size`"),
    ] = None
    cpu_rate: Annotated[
        Rate,
        says(
            "data that a task processes per second of CPU time, for jobs of which only data sizes are known"
        ),
    ] = 6.4 * 2**20
    io_rate: Annotated[
        Rate,
        says(
            "rate at which tasks of the trace read and write, to estimate their CPU time if "
            "only durations were recorded"
        ),
    ] = 50e6
    reduce_bytes: Annotated[
        Size,
        says("amount of shuffle or output data per reduce, for jobs without a recorded number of reduces"),
    ] = 2**30
    map_memory: Annotated[
        Size | None,
        says(
            "memory that each map of the trace needs, by default that of a slot (`mapreduce.map.memory.mb`)"
        ),
    ] = None
    reduce_memory: Annotated[
        Size | None,
        says(
            "memory that each reduce of the trace needs, by default that of a slot (`mapreduce.reduce.memory.mb`)"
        ),
    ] = None
    recorded_under: Annotated[
        Text | None,
        says(
            "policy that scheduled the jobs when the trace was recorded, such as `yarn-capacity`. A simulation under "
            "the first policy of this name is compared with the recorded completion times"
        ),
    ] = None
    limit_bytes: Annotated[
        Size | None,
        says(
            "largest amount of data that a job may read, shuffle or write. Larger jobs are "
            "made smaller; no limit by default"
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> Workload:
        if sum(getattr(self, source) is not None for source in SOURCES) != 1:
            raise ValueError("expected one of jobs: [...], suite: NAME, generate: {...} and trace: FILE")
        return self


SOURCES = ("jobs", "suite", "generate", "trace")
TRACE_KEYS = tuple(name for name in Workload.model_fields if name not in SOURCES)


class Profiles(Section):
    """`profiles`: the file of job measurements (profile store) that policies use by default.

    `store` is `default`, `none` or a path. With `learn`, measurements of the run are added to this file.
    """

    store: Annotated[
        Text,
        says(
            "file with measurements of earlier runs, for policies that name none: a path, "
            "`default` (your own file) or `none`"
        ),
    ] = "default"
    learn: Annotated[
        bool, Field(strict=True), says("whether the measurements of this run are added to the file")
    ] = False


class Simulate(Section):
    """`simulate`: the source of task costs in simulated runs, and whether tasks compete for resources."""

    costs: Annotated[
        Literal["specification", "profile", "trace"] | None,
        says(
            "source of task costs: the scenario (`specification`), measurements on this host "
            "(`profile`), or durations in the trace (`trace`, default if there are any)"
        ),
    ] = None
    contention: Annotated[
        bool | None,
        says(
            "whether tasks on a node compete for its CPU, disk and network, by default true unless "
            "`costs` is `trace`"
        ),
    ] = None
    seek: Annotated[
        float,
        Number,
        Field(ge=0, le=10),
        says(
            "`seek` of all disks that declare none: 0.1 means that two concurrent streams "
            "together get 91% of the disk's rate"
        ),
    ] = 0.0
    stragglers: Annotated[
        StragglersModel, says("attempts that are slow at random: their share, and how much longer they take")
    ] = StragglersModel()
    engine: Annotated[
        Literal["auto", "objects"],
        says("`auto` simulates large runs with a faster compiled loop, `objects` never does"),
    ] = "auto"


class Scenario(Section):
    """The content of a scenario file."""

    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None,
        says("name of the scenario, by default the name of its file"),
    ] = None
    seed: Annotated[
        int,
        Field(strict=True, ge=0, lt=2**63),
        says("seed of all random choices. The same seed gives the same simulated results"),
    ] = 0
    scale: Annotated[
        float,
        Number,
        Field(ge=1e-6, le=1000),
        says("factor on all durations and amounts of data, but not on rates: 0.05 is 20 times less work"),
    ] = 1.0
    cluster: Annotated[ClusterModel, says("nodes, racks and network of the emulated cluster")] = (
        ClusterModel()
    )
    blocks: Annotated[
        Blocks, says("how input files are divided into blocks, and which nodes store the replicas")
    ] = Blocks()
    workload: Annotated[
        Workload | None, says("jobs to run: a list, a shipped suite, random jobs, or a trace")
    ] = None
    policies: Annotated[
        list[Any],
        Field(min_length=1),
        BeforeValidator(as_list),
        says(
            "scheduling policies to compare, each as text such as `delay:node_wait=5s` or as a "
            "mapping (see `schedbed policies`)"
        ),
    ] = ["fifo", "fair", "delay"]
    speculation: Annotated[
        Any,
        says(
            "whether slow tasks are run a second time: `none`, `late` (the LATE method), `spark` (Spark's), or "
            "`{late: {...}}` with parameters"
        ),
    ] = "none"
    sizes: Annotated[
        Any,
        says(
            "what your own policies learn about task costs: exact values (`true`), nothing "
            "(`hidden`), or estimates (`estimated`, `{estimated: {error: 0.5}}`)"
        ),
    ] = "true"
    faults: Annotated[
        Faults, says("failures to cause during the run, at fixed times or drawn at random")
    ] = []
    changes: Annotated[
        Changes,
        says(
            "parameters of the policies that change during the run: `at`, and new values of `accounts` (`dp`) or "
            "`queues` (`capacity`). A policy without the parameter is not affected"
        ),
    ] = []
    profiles: Annotated[Profiles, says("file with measurements of earlier runs, which some policies use")] = (
        Profiles()
    )
    simulate: Annotated[Simulate, says("settings of simulated runs (`--machines sim`)")] = Simulate()
    framework: Annotated[
        FrameworkModel,
        says(
            "delays and heartbeat rules of a real framework, live and simulated: `none`, `hadoop1`, `yarn`, "
            "`yarn-bare`, `slurm`, `spark`, or `{hadoop1: {...}}` with changed values"
        ),
    ] = "none"
    measure: Annotated[
        Measure | None,
        says(
            "range of submit times of the jobs that count in the results, to leave out a "
            "warm-up and a cool-down. By default all jobs count"
        ),
    ] = None
    repeats: Annotated[int, Field(strict=True, ge=1, le=1000), says("number of runs of each policy")] = 1
    stretch: Annotated[
        Stretch,
        says(
            "number of real seconds per emulated second in a live run, so that slow hosts can "
            "emulate fast nodes. `auto` chooses the smallest that this host permits"
        ),
    ] = 1.0
