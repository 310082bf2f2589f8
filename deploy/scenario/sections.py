"""A node's disk, memory and foreground load in a scenario, and how they slow down tasks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from schedbed.deploy.scenario.scalars import (
    Count,
    Duration,
    Factor,
    Number,
    Positive,
    Rate,
    Section,
    Size,
    Slots,
    as_list,
    says,
)
from schedbed.scheduler.framework import PROFILES, Framework

FOREGROUND_MAX = 0.95
ForegroundShare = Annotated[
    float,
    Number,
    Field(ge=0, le=FOREGROUND_MAX),
    says("share of the node's CPU that other work uses ahead of all tasks: 0.2 is 20%"),
]


class DiskModel(Section):
    """`disk: {rate: 40MB/s, seek: 0.1}`: a disk that becomes slower with the number of concurrent streams.

    The total rate of n concurrent streams is rate / (1 + seek x (n - 1)).
    """

    rate: Annotated[Rate, says("rate of the disk with one stream, for reads and writes together")]
    seek: Annotated[
        float,
        Number,
        Field(ge=0, le=10),
        says(
            "slowdown by each additional concurrent stream: with 0.1, two streams together "
            "get 91% of the rate"
        ),
    ] = 0.0


class MemoryModel(Section):
    """`memory: {size: 8GiB, paging: 0.3}`: a memory that slows down the disk when tasks declare too much.

    If tasks declare more memory than `size`, the rate of the disk is rate / (1 + paging x (declared / size -
    1)).
    """

    size: Annotated[Size, says("memory of the node")]
    paging: Annotated[
        float,
        Number,
        Field(ge=0, le=100),
        says(
            "slowdown of the disk when tasks declare too much memory: with 0.3, it keeps 77% of its "
            "rate if they declare twice `size`"
        ),
    ] = 0.0


class ForegroundStep(Section):
    """`{at: 60s, cpu: 0.2}`: from the time `at`, other work uses the share `cpu` of a node's CPU."""

    at: Annotated[
        Duration,
        Field(le=1e9),
        says(
            "time from which the other work uses this share, counted from the start of the "
            "run and multiplied by `scale`"
        ),
    ]
    cpu: ForegroundShare


def _form(value: object) -> str:
    return "suffers" if isinstance(value, dict | Section) else "plain"


Disk = Annotated[
    Annotated[Rate, Tag("plain")] | Annotated[DiskModel, Tag("suffers")],
    Discriminator(_form),
    says(
        "rate of the disk for reads and writes together, or a mapping with `seek` if concurrent "
        "streams slow it down",
        "bytes per second",
    ),
]
Memory = Annotated[
    Annotated[Size, Tag("plain")] | Annotated[MemoryModel, Tag("suffers")],
    Discriminator(_form),
    says(
        "memory of the node, or a mapping with `paging` if the disk slows down when tasks declare more",
        "bytes",
    ),
]


def _rising(steps: list[ForegroundStep]) -> list[ForegroundStep]:
    for before, step in pairwise(steps):
        if step.at <= before.at:
            raise ValueError(f"{step.at:g}s comes after {before.at:g}s, expected times that rise")
    return steps


def _load_form(value: object) -> str:
    return "steps" if isinstance(value, list | dict) else "steady"


Foreground = Annotated[
    Annotated[ForegroundShare, Tag("steady")]
    | Annotated[
        list[ForegroundStep],
        Field(min_length=1, max_length=10_000),
        BeforeValidator(as_list),
        AfterValidator(_rising),
        Tag("steps"),
    ],
    Discriminator(_load_form),
    says(
        "share of the node's CPU that other work uses ahead of all tasks, or a list of shares with "
        "start times"
    ),
]


def foreground_of(value: float | list[ForegroundStep], scale: float) -> tuple[tuple[float, float], ...]:
    """Return other work's load on a node: start times in s, scaled, with CPU shares."""
    if not isinstance(value, list):
        return ((0.0, value),) if value else ()
    return tuple((step.at * scale, step.cpu) for step in value)


def disk_of(value: float | DiskModel) -> DiskModel:
    """Return the disk; a plain rate becomes one without seeks."""
    return value if isinstance(value, DiskModel) else DiskModel(rate=value)


def memory_of(value: int | MemoryModel) -> MemoryModel:
    """Return the memory; a plain size becomes one without paging."""
    return value if isinstance(value, MemoryModel) else MemoryModel(size=value)


# `framework`: the times and the rules of heartbeats that a framework such as Hadoop 1 adds to a run.
#
# The value is the name of a profile, or a profile with some changed costs.

Cost = Annotated[Duration, Field(le=3600)]
SECONDS = (
    "init_poll",
    "init",
    "setup",
    "cleanup",
    "localize",
    "jvm",
    "fetch_poll",
    "am_heartbeat",
    "am_linger",
)
"""The keys whose fields in `Framework` end with `_s`."""


class FrameworkCosts(Section):
    """Values that replace those of a framework profile (the delays that Hadoop, for example, adds to tasks).

    A missing key leaves the profile's value unchanged. The scenario's key `scale` does not change these
    values.
    """

    maps_per_heartbeat: Annotated[
        Slots | None, says("largest number of maps that a node may start per heartbeat, 0 for no limit")
    ] = None
    reduces_per_heartbeat: Annotated[
        Slots | None, says("largest number of reduces that a node may start per heartbeat, 0 for no limit")
    ] = None
    out_of_band: Annotated[
        Annotated[bool, Field(strict=True)] | None,
        says("whether a node sends a heartbeat as soon as a task ends, instead of at the next regular time"),
    ] = None
    init_poll: Annotated[
        Cost | None,
        says(
            "time between two checks for new jobs to initialize. With 0s, each job is "
            "initialized when it is submitted"
        ),
    ] = None
    init: Annotated[
        Cost | None, says("time that the initialization of a job takes, before its tasks may start")
    ] = None
    init_jobs: Annotated[
        Slots | None,
        says("largest number of initialized jobs of a user that have not started a task, 0 for no limit"),
    ] = None
    setup: Annotated[
        Cost | None, says("duration of a job's set-up task, which runs before all other tasks of the job")
    ] = None
    cleanup: Annotated[
        Cost | None, says("duration of a job's clean-up task, which runs after all other tasks of the job")
    ] = None
    localize: Annotated[
        Cost | None, says("time that a node needs to fetch a job's files, before its first task of that job")
    ] = None
    jvm: Annotated[
        Cost | None,
        says(
            "time from the start of an attempt to its first line of code (start of the Java virtual machine)"
        ),
    ] = None
    fetch_poll: Annotated[
        Cost | None, says("time until a reduce learns that map outputs are ready and can fetch them")
    ] = None
    fetch_rate: Annotated[
        Annotated[Rate, Field(gt=0)] | None,
        says("largest total rate at which one reduce fetches map outputs, by default no limit"),
    ] = None
    recorded_shuffle: Annotated[
        Annotated[bool, Field(strict=True)] | None,
        says("whether reduces take the shuffle time that the trace recorded, instead of a computed one"),
    ] = None

    am_heartbeat: Annotated[
        Annotated[Cost, Field(ge=0.001)] | None,
        says(
            "with `yarn-bare`, time between two heartbeats of a job's ApplicationMaster to the ResourceManager. "
            "Granted containers start at the next one"
        ),
    ] = None

    slowstart: Annotated[
        Annotated[float, Number, Field(ge=0, le=1)] | None,
        says(
            "with `hadoop1` and `yarn`, share of a job's maps that must be done before its reduces start "
            "(`mapreduce.job.reduce.slowstart.completedmaps`)"
        ),
    ] = None

    am_memory: Annotated[
        Annotated[Size, Field(gt=0)] | None,
        says("with `yarn`, memory of an ApplicationMaster's container (`yarn.app.mapreduce.am.resource.mb`)"),
    ] = None

    am_vcores: Annotated[
        Positive | None,
        says(
            "with `yarn`, vcores of an ApplicationMaster's container (`yarn.app.mapreduce.am.resource.cpu-vcores`)"
        ),
    ] = None

    am_linger: Annotated[
        Cost | None,
        says("with `yarn`, time from a job's end until its ApplicationMaster's container is free"),
    ] = None

    late_asks: Annotated[
        Annotated[bool, Field(strict=True)] | None,
        says(
            "with `yarn-bare`, whether an ApplicationMaster sends the number of containers that it still needs one "
            "heartbeat late, as MapReduce's does, so that containers come for which no task is left"
        ),
    ] = None

    def applied(self, profile: Framework) -> Framework:
        """Return a copy of the profile in which the values given here replace the profile's values."""
        given = self.model_dump(exclude_none=True)
        names = {"am_memory": "am_memory_bytes"}
        for key in SECONDS:
            names[key] = f"{key}_s"
        return replace(profile, **{names.get(key, key): value for key, value in given.items()})


class FrameworkChoice(Section):
    """`framework: {hadoop1: {setup: 2s}}`: a framework profile with some of its costs changed."""

    hadoop1: Annotated[
        FrameworkCosts | None,
        says("delays of Hadoop 1 (MRv1), of which the given ones replace those of the profile `hadoop1`"),
    ] = None
    yarn: Annotated[
        FrameworkCosts | None,
        says("delays of MapReduce on YARN, of which the given ones replace those of the profile `yarn`"),
    ] = None
    yarn_bare: Annotated[
        FrameworkCosts | None,
        Field(alias="yarn-bare"),
        says(
            "protocol of MapReduce on YARN without its start-up costs, of which the given values replace those of "
            "the profile `yarn-bare`"
        ),
    ] = None
    slurm: Annotated[
        FrameworkCosts | None,
        says("delays of Slurm, of which the given ones replace those of the profile `slurm`"),
    ] = None
    spark: Annotated[
        FrameworkCosts | None,
        says("delays of Spark, of which the given ones replace those of the profile `spark`"),
    ] = None

    @property
    def given(self) -> dict[str, FrameworkCosts]:
        """Return the costs by the profile's name."""
        fields = type(self).model_fields
        return {fields[name].alias or name: costs for name, costs in self if costs is not None}

    @model_validator(mode="after")
    def _one_of(self) -> FrameworkChoice:
        if len(self.given) != 1:
            raise ValueError(
                "expected one of hadoop1: {...}, yarn: {...}, yarn-bare: {...}, slurm: {...} and spark: {...}"
            )
        return self


def _framework_section_form(value: object) -> str:
    return "costs" if isinstance(value, dict | FrameworkChoice) else "name"


FrameworkModel = Annotated[
    Annotated[Literal["none", "hadoop1", "yarn", "yarn-bare", "slurm", "spark"], Tag("name")]
    | Annotated[FrameworkChoice, Tag("costs")],
    Discriminator(_framework_section_form),
]


def framework_of(given: Any) -> Framework:
    """Return the framework costs for the value of the key `framework`, which has been validated already."""
    if isinstance(given, str):
        return PROFILES[given]
    assert isinstance(given, FrameworkChoice)
    [(name, costs)] = given.given.items()
    return costs.applied(PROFILES[name])


def framework_fault(framework: Framework) -> str:
    """Return why the costs do not go together, or ""."""
    if framework.late_asks and not framework.am_heartbeat_s:
        return "late_asks needs ApplicationMasters: am_heartbeat, or the profile yarn-bare"
    if framework.master is not None and not framework.am_heartbeat_s:
        return "am_memory needs ApplicationMasters: am_heartbeat, or the profile yarn"
    return ""


# `blocks: {dynamic: ...}`: the schemes that create replicas while jobs run, and their parameters.


class Dare(Section):
    """`dynamic: {dare: {p: 0.3, budget: 0.2}}`: nodes keep blocks that their maps fetched from other nodes.

    The share `p` of the maps that fetch their block keep it as a replica. These replicas use at most the
    share `budget` of the bytes of all inputs.
    """

    p: Annotated[
        Factor,
        says("probability that a map keeps the block that it fetched from another node as a new replica"),
    ] = 0.3
    budget: Annotated[
        Factor,
        says(
            "largest total size of the additional replicas, as a share of all inputs with "
            "their replicas: 0.2 is 20%"
        ),
    ] = 0.2


class DareChoice(Section):
    """`dynamic: {dare: ...}`: the replication scheme DARE with the given parameters."""

    dare: Annotated[Dare, says("parameters of DARE")]


class Scarlett(Section):
    """`dynamic: {scarlett: {epoch: 60s, delta: 1, budget: 0.2}}`: popular inputs have more replicas.

    Every `epoch`, the number of replicas of each input is changed to `delta` more than the largest number of
    jobs that read the input at the same time. The additional replicas use at most the share `budget` of the
    bytes of all inputs.
    """

    epoch: Annotated[
        Duration, Field(gt=0), says("time between two adjustments of the numbers of replicas")
    ] = 60.0
    delta: Annotated[
        Count,
        says(
            "number of replicas of an input beyond the largest number of jobs that read it at the same time"
        ),
    ] = 1
    budget: Annotated[
        Factor,
        says(
            "largest total size of the additional replicas, as a share of all inputs with "
            "their replicas: 0.2 is 20%"
        ),
    ] = 0.2


class ScarlettChoice(Section):
    """`dynamic: {scarlett: ...}`: the replication scheme Scarlett with the given parameters."""

    scarlett: Annotated[Scarlett, says("parameters of Scarlett")]


class Cdrm(Section):
    """`dynamic: {cdrm: {epoch: 60s, availability: 0.99, failure: 0.1}}`: replicas for a given availability.

    Every `epoch`, each input is given the fewest replicas that reach the `availability`, if each node is down
    with the probability `failure`. New replicas are placed on the nodes that are least likely to be busy.
    """

    epoch: Annotated[
        Duration, Field(gt=0), says("time between two adjustments of the numbers of replicas")
    ] = 60.0
    availability: Annotated[
        float,
        Field(gt=0, lt=1),
        says("probability with which all blocks of an input must be available: 0.99 is 99%"),
    ] = 0.99
    failure: Annotated[
        float, Field(gt=0, lt=1), says("assumed probability that a node is down: 0.1 is 10%")
    ] = 0.1


class CdrmChoice(Section):
    """`dynamic: {cdrm: ...}`: the replication scheme CDRM with the given parameters."""

    cdrm: Annotated[Cdrm, says("parameters of CDRM")]


_DYNAMIC_FORMS = {"scarlett": ScarlettChoice, "cdrm": CdrmChoice, "dare": DareChoice}


def _dynamic_form(value: object) -> str:
    for name, choice in _DYNAMIC_FORMS.items():
        if isinstance(value, choice) or (isinstance(value, dict) and name in value):
            return name
    return "dare" if isinstance(value, dict) else "name"


Dynamic = Annotated[
    Annotated[Literal["none", "dare", "scarlett", "cdrm"], Tag("name")]
    | Annotated[DareChoice, Tag("dare")]
    | Annotated[ScarlettChoice, Tag("scarlett")]
    | Annotated[CdrmChoice, Tag("cdrm")],
    Discriminator(_dynamic_form),
]


class StragglersModel(Section):
    """`simulate.stragglers`: a random `share` of all attempts needs `factor` times the planned CPU time."""

    share: Annotated[
        float, Number, Field(ge=0, le=1), says("share of all attempts that are slow: 0.05 is one in twenty")
    ] = 0.0
    factor: Annotated[
        float,
        Number,
        Field(ge=1, le=1000),
        says("factor on the CPU time of slow attempts: 5 makes it five times as long"),
    ] = 5.0


class Power(Section):
    """`power: {idle_watts: 90, busy_watts: 210}`: what a node draws without work, and with all of its CPU in use."""

    idle_watts: Annotated[float, Number, Field(ge=0, le=1e6), says("power of a node without work, in watts")]
    busy_watts: Annotated[
        float, Number, Field(ge=0, le=1e6), says("power of a node whose cores are all in use, in watts")
    ]

    @model_validator(mode="after")
    def _grows(self) -> Power:
        if self.busy_watts < self.idle_watts:
            raise ValueError(f"busy_watts {self.busy_watts:g} is below idle_watts {self.idle_watts:g}")
        return self


class Change(Section):
    """`changes: [{at: 60s, accounts: {ana: {bid: 5}}}]`: parameters of the policies with new values from `at` on.

    A mapping's missing names and keys keep their values.
    """

    at: Annotated[Duration, says("time of the change, counted from the start of the run")]
    accounts: Annotated[
        dict[str, Any] | None,
        says("policy `dp`: bids from the next interval on, and total budgets, such as `{ana: {bid: 5}}`"),
    ] = None
    queues: Annotated[
        dict[str, Any] | None,
        says("policies with the order `capacity`: settings of queues, such as `{prod: {capacity: 50}}`"),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Return the new values by parameter, as given."""
        return {name: value for name in PARAMETERS if (value := vars(self)[name]) is not None}

    @model_validator(mode="after")
    def _not_empty(self) -> Change:
        if not self.given:
            raise ValueError(f"nothing changes, expected {' or '.join(PARAMETERS)}")
        return self


Changes = Annotated[list[Change], BeforeValidator(as_list)]

PARAMETERS = ("accounts", "queues")
"""The parameters of policies that can change during a run."""


# `measure`: the jobs on which a run's figures are based, so that a warm-up and a cool-down are left out.


class Measure(Section):
    """`measure: {from: 10m, until: 1h}`: a run's figures are based on the jobs submitted in [from, until).

    Both times are multiplied by `scale`.
    """

    from_: Annotated[
        Duration, Field(alias="from"), says("submit time from which jobs count in the results")
    ] = 0.0
    until: Annotated[
        Duration | None,
        says("submit time from which jobs no longer count in the results. Without it, all later jobs count"),
    ] = None

    @model_validator(mode="after")
    def _not_empty(self) -> Measure:
        if self.until is not None and self.until <= self.from_:
            raise ValueError("until is not after from")
        return self
