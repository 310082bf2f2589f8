"""A node's disk, memory and foreground load in a scenario, and how they slow down tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from schedbed.deploy.scenario.scalars import Duration, Number, Rate, Section, Size, as_list, says

FOREGROUND_MAX = 0.95
ForegroundShare = Annotated[
    float,
    Number,
    Field(ge=0, le=FOREGROUND_MAX),
    says("share of the node's CPU that other work takes, ahead of all tasks"),
]


class DiskModel(Section):
    """`disk: {rate: 40MB/s, seek: 0.1}`: a disk that becomes slower with the number of concurrent streams.

    The total rate of n concurrent streams is rate / (1 + seek x (n - 1)).
    """

    rate: Annotated[Rate, says("rate of the disk, shared by reads and writes")]
    seek: Annotated[
        float, Number, Field(ge=0, le=10), says("what each further stream takes, in shares of the rate")
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
        says("what the disk loses when tasks declare twice the memory, in shares of the rate"),
    ] = 0.0


class ForegroundStep(Section):
    """`{at: 60s, cpu: 0.2}`: from the time `at`, other work uses the share `cpu` of a node's CPU."""

    at: Annotated[Duration, Field(le=1e9), says("when the share begins, multiplied by `scale`")]
    cpu: ForegroundShare


def _form(value: object) -> str:
    return "suffers" if isinstance(value, dict | Section) else "plain"


Disk = Annotated[
    Annotated[Rate, Tag("plain")] | Annotated[DiskModel, Tag("suffers")],
    Discriminator(_form),
    says(
        "rate of the disk, shared by reads and writes, or with what further streams take", "bytes per second"
    ),
]
Memory = Annotated[
    Annotated[Size, Tag("plain")] | Annotated[MemoryModel, Tag("suffers")],
    Discriminator(_form),
    says("memory of the node, or with what the disk loses when tasks declare more", "bytes"),
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
    says("other work on a shared node, ahead of all tasks: a share of its CPU, or one from each time"),
]


def foreground_of(value: float | list[ForegroundStep], scale: float) -> tuple[tuple[float, float], ...]:
    """Return the load that other work puts on a node: pairs of a start time in s and a CPU share.

    Start times are multiplied by `scale`, the scenario's factor on durations.
    """
    if not isinstance(value, list):
        return ((0.0, value),) if value else ()
    return tuple((step.at * scale, step.cpu) for step in value)


def disk_of(value: float | DiskModel) -> DiskModel:
    """Return the disk as a `DiskModel`; a plain rate becomes a disk without seeks."""
    return value if isinstance(value, DiskModel) else DiskModel(rate=value)


def memory_of(value: int | MemoryModel) -> MemoryModel:
    """Return the memory as a `MemoryModel`; a plain size becomes memory without paging."""
    return value if isinstance(value, MemoryModel) else MemoryModel(size=value)
