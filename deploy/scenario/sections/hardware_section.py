"""A node's disk and memory as a scenario says them: one figure each, or with what they lose under load."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from schedbed.deploy.scenario.scalars import Number, Rate, Section, Size, says


class DiskModel(Section):
    """`disk: {rate: 40MB/s, seek: 0.1}`: n streams get rate / (1 + seek x (n - 1)) together."""

    rate: Annotated[Rate, says("rate of the disk, shared by reads and writes")]
    seek: Annotated[
        float, Number, Field(ge=0, le=10), says("what each further stream takes, in shares of the rate")
    ] = 0.0


class MemoryModel(Section):
    """`memory: {size: 8GiB, paging: 0.3}`: tasks that declare more memory than the size slow the disk, to rate / (1 +
    paging x (declared / size - 1))."""

    size: Annotated[Size, says("memory of the node")]
    paging: Annotated[
        float,
        Number,
        Field(ge=0, le=100),
        says("what the disk loses when tasks declare twice the memory, in shares of the rate"),
    ] = 0.0


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


def disk_of(value: float | DiskModel) -> DiskModel:
    """Return the disk with nothing left out."""
    return value if isinstance(value, DiskModel) else DiskModel(rate=value)


def memory_of(value: int | MemoryModel) -> MemoryModel:
    """Return the memory with nothing left out."""
    return value if isinstance(value, MemoryModel) else MemoryModel(size=value)
