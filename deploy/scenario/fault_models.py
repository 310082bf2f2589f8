"""What a scenario may say of faults: each at its time, or drawn from a seed; and one fault given by hand."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from schedbed.deploy.scenario.scalars import Duration, Factor, Number, Part, Positive, Text, as_list
from schedbed.tasks.units import parse_duration

Nodes = Annotated[list[Text], Field(min_length=1), BeforeValidator(as_list)]
FAULTS = (
    "kill",
    "slow",
    "partition",
    "freeze",
    "delay",
    "loss",
    "lose_requests",
    "lose_replies",
    "fill_disk",
    "kill_attempt",
    "corrupt_replica",
    "delete_replica",
    "kill_tracker",
    "crash",
    "restart",
)
GOES_WITH = {
    "share": ("loss", "lose_requests", "lose_replies"),
    "by": ("delay",),
    "cpu": ("slow",),
    "disk": ("slow",),
    "network": ("slow",),
    "from_": ("partition",),
    "node": ("kill_attempt", "corrupt_replica", "delete_replica"),
}
AT_ONCE = ("kill_attempt", "corrupt_replica", "delete_replica", "restart")


class Fault(Part):
    """One entry of `faults`: exactly one of FAULTS; without `for` it lasts to the end.

    What is hit are nodes (`all`, of messages), an attempt, a task or `any`, a block, a path or `any`.
    """

    at: Duration
    kill: Nodes | None = None
    slow: Nodes | None = None
    partition: Nodes | None = None
    freeze: Nodes | None = None
    delay: Nodes | None = None
    loss: Nodes | None = None
    lose_requests: Nodes | None = None
    lose_replies: Nodes | None = None
    fill_disk: Nodes | None = None
    kill_attempt: Text | None = None
    corrupt_replica: Text | None = None
    delete_replica: Text | None = None
    kill_tracker: Nodes | None = None
    crash: Literal["jobtracker", "namenode"] | None = None
    restart: Literal["namenode"] | None = None
    share: Annotated[float, Number, Field(gt=0, le=1)] | None = None
    by: Duration | None = None
    cpu: Factor | None = None
    disk: Factor | None = None
    network: Factor | None = None
    from_: Annotated[Literal["masters"] | None, Field(alias="from")] = None
    node: Text | None = None
    for_: Annotated[Duration | None, Field(alias="for")] = None

    @property
    def key(self) -> str:
        """Which of FAULTS it is."""
        return next(kind for kind in FAULTS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _sensible(self) -> Fault:
        if sum(getattr(self, kind) is not None for kind in FAULTS) != 1:
            raise ValueError(f"expected exactly one of {', '.join(FAULTS)}")
        key = self.key
        for name, keys in GOES_WITH.items():
            if getattr(self, name) is not None and key not in keys:
                raise ValueError(f"{name.rstrip('_')} only goes with {', '.join(keys)}")
        if key in GOES_WITH["share"] and self.share is None:
            raise ValueError(f"{key} goes with share, the share of the messages that is lost")
        if key == "delay" and self.by is None:
            raise ValueError("delay goes with by, what each message takes longer")
        if self.for_ is not None and (key in AT_ONCE or self.crash == "namenode"):
            raise ValueError(f"{key} is over at once: it goes without for")
        if key == "slow" and self.cpu is self.disk is self.network is None:
            raise ValueError(
                "slow: NODE goes with at least one of cpu, disk, network (the share that is left)"
            )
        return self


class FaultNow(Fault):
    """A fault given by hand: now, unless it says when."""

    at: Duration = 0.0


_RATE = re.compile(r"([0-9.]+) ?/ ?(s|m|min|h)")
_UNIT_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_frequency(value: object) -> float:
    """Times a second of `3/h`, `0.5/m` or a mean time in between such as `20s`; ValueError says what was expected."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        often = float(found[1]) / _UNIT_S[found[2]] if found else 1 / parse_duration(value)
    except (ValueError, ZeroDivisionError):
        often = 0.0
    if not 0 < often < 1e6:
        raise ValueError(f"{value!r} is not a rate (such as 3/h, 0.5/m) nor a mean time in between (20s)")
    return often


Kind = Literal[
    "kill",
    "freeze",
    "slow",
    "partition",
    "cut_off",
    "delay",
    "loss",
    "fill_disk",
    "kill_attempt",
    "corrupt_replica",
    "delete_replica",
    "kill_tracker",
    "crash_jobtracker",
    "restart_namenode",
]
DRAWN: tuple[Kind, ...] = get_args(Kind)
"""The kinds of `cluster.faults` that can be drawn."""


class RandomFaults(Part):
    """`random`: so many faults, or as many as a rate gives, between `from` and `until`, each for `for` on average.

    `spare`: at no time are more nodes hit that hold replicas than leave one of each block.
    """

    rate: Annotated[float | None, BeforeValidator(parse_frequency)] = None
    count: Positive | None = None
    kinds: Annotated[list[Kind], Field(min_length=1), BeforeValidator(as_list)] = list(DRAWN)
    nodes: Nodes | None = None
    seed: Annotated[int, Field(strict=True)] | None = None
    from_: Annotated[Duration, Field(alias="from")] = 0.0
    until: Duration = 3600.0
    for_: Annotated[Duration, Field(alias="for", gt=0)] = 30.0
    spare: bool = True

    @model_validator(mode="after")
    def _sensible(self) -> RandomFaults:
        if (self.rate is None) == (self.count is None):
            raise ValueError("expected rate (such as 3/h) or count, one of the two")
        if self.until <= self.from_:
            raise ValueError("until is not later than from")
        return self


class RandomEntry(Part):
    """An entry of the list that stands for many."""

    random: RandomFaults


class FaultSources(Part):
    """`faults: {at: [...], random: {...}}`."""

    at: list[Fault] = []
    random: RandomFaults | None = None


def _entry_form(value: object) -> str:
    return "many faults" if isinstance(value, RandomEntry | dict) and "random" in dict(value) else "one fault"


def _faults_form(value: object) -> str:
    return "fault sources" if isinstance(value, dict | FaultSources) else "fault list"


# A tag with a space is no key of the file: it does not show in messages.
Entry = Annotated[
    Annotated[Fault, Tag("one fault")] | Annotated[RandomEntry, Tag("many faults")],
    Discriminator(_entry_form),
]
Faults = Annotated[
    Annotated[list[Entry], Tag("fault list")] | Annotated[FaultSources, Tag("fault sources")],
    Discriminator(_faults_form),
]
"""What the key `faults` may hold."""

Given = tuple[tuple[str | int, ...], Any]


def entries(faults: Any) -> list[Given]:
    """Each `Fault` and `RandomFaults` of the key `faults`, with its path below that."""
    if isinstance(faults, FaultSources):
        found: list[Given] = [(("at", index), fault) for index, fault in enumerate(faults.at)]
        return [*found, (("random",), faults.random)] if faults.random else found
    return [
        ((index, "random"), entry.random) if isinstance(entry, RandomEntry) else ((index,), entry)
        for index, entry in enumerate(faults)
    ]
