"""Models of a scenario's faults (at fixed times or random) and of a fault that a user injects by hand.

Their fields are generated from the table of fault kinds in `cluster.faults`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, create_model, model_validator

from schedbed.cluster.faults import KINDS, ONCE, FaultKind, FaultParameter, entry_keys
from schedbed.deploy.scenario.scalars import (
    Duration,
    Factor,
    Positive,
    Section,
    Text,
    as_list,
    one_or_more,
    says,
)
from schedbed.tasks.units import parse_duration

Nodes = Annotated[list[Text], Field(min_length=1), BeforeValidator(as_list), one_or_more("string")]
KEYS = entry_keys()
PARAMETERS: dict[str, FaultParameter] = {
    parameter.name: parameter for kind in KINDS.values() for parameter in kind.parameters
}
_one_of: Any = Literal  # the values come from a table, which a type checker cannot follow


def _keys(kinds: Iterable[FaultKind]) -> list[str]:
    """Return the keys that name these kinds in a scenario file, such as `kill`, once each."""
    return list(dict.fromkeys(next(iter(spelling)) for kind in kinds for spelling in kind.spellings))


GOES_WITH = {
    **{
        name: _keys(kind for kind in KINDS.values() if parameter in kind.parameters)
        for name, parameter in PARAMETERS.items()
    },
    "from_": [key for key, kinds in KEYS.items() if any("from" in s for k in kinds for s in k.spellings)],
    "node": _keys(kind for kind in KINDS.values() if kind.target in ("attempt", "replica")),
}
"""The fault keys that each additional key can be combined with."""


def _value_of(key: str) -> Any:
    """Return the type of a fault key's value: a list of nodes, a master's name, or the text of one target."""
    kind = KEYS[key][0]
    if kind.hits_master:
        return _one_of[tuple(dict.fromkeys(s[key] for each in KEYS[key] for s in each.spellings if key in s))]
    return Nodes if kind.target == "nodes" else Text


Model = TypeVar("Model", bound=Section)


def _with_kinds(model: type[Model]) -> type[Model]:
    """Return a subclass with an optional field for each fault key (such as `kill`) and parameter."""
    fields: dict[str, Any] = {}
    for key, kinds in KEYS.items():
        about = "; ".join(kind.about for kind in kinds)
        fields[key] = (Annotated[_value_of(key) | None, Field(description=about)], None)
    for name, parameter in PARAMETERS.items():
        value: Any = Duration if parameter.unit == "time" else Factor
        fields[name] = (Annotated[value | None, Field(description=parameter.doc)], None)
    return create_model(model.__name__, __base__=model, __module__=__name__, __doc__=model.__doc__, **fields)


@_with_kinds
class Fault(Section):
    """An entry of the list `faults`: one fault at a fixed time.

    Exactly one fault key such as `kill` is set. Its value is the target: nodes, an attempt, a task, a block
    or a path. The value `all` stands for all nodes in faults that affect messages, and `any` for any task or
    path. Without the key `for`, the fault lasts until the end of the run.
    """

    at: Annotated[Duration, says("time at which the fault begins, counted from the start of the run")]
    from_: Annotated[
        Literal["masters"] | None,
        Field(alias="from"),
        says(
            "with `partition`: `masters` cuts the nodes off from the JobTracker and NameNode only, "
            "not from other nodes"
        ),
    ] = None
    node: Annotated[
        Text | None,
        says(
            "node on which the attempt or replica is chosen, with `kill_attempt`, "
            "`corrupt_replica` and `delete_replica`. By default any node"
        ),
    ] = None
    for_: Annotated[
        Duration | None,
        Field(alias="for"),
        says("duration of the fault, by default until the end of the run"),
    ] = None

    @property
    def key(self) -> str:
        """Return the entry's fault key, such as `kill`."""
        return next(key for key in KEYS if getattr(self, key) is not None)

    @property
    def kind(self) -> FaultKind:
        """Return the kind of this fault. `from: masters` selects a variant that separates nodes from masters only."""
        said = {self.key: getattr(self, self.key)} | ({"from": self.from_} if self.from_ else {})
        return next(
            kind
            for kind in KEYS[self.key]
            for spelling in kind.spellings
            if spelling.keys() == said.keys()
            and all(word in ("", said[key]) for key, word in spelling.items())
        )

    @model_validator(mode="after")
    def _sensible(self) -> Fault:
        if sum(getattr(self, key) is not None for key in KEYS) != 1:
            raise ValueError(f"expected exactly one of {', '.join(KEYS)}")
        key = self.key
        for name, keys in GOES_WITH.items():
            if getattr(self, name) is not None and key not in keys:
                raise ValueError(f"{name.rstrip('_')} only goes with {', '.join(keys)}")
        kind = self.kind
        for parameter in kind.parameters:
            if parameter.required and getattr(self, parameter.name) is None:
                raise ValueError(f"{key} goes with {parameter.name}, {parameter.doc}")
        if self.for_ is not None and kind.duration == ONCE:
            raise ValueError(f"{key} is over at once: it goes without for")
        if kind.parameters and all(getattr(self, each.name) is None for each in kind.parameters):
            names, doc = ", ".join(each.name for each in kind.parameters), kind.parameters[0].doc
            raise ValueError(f"{key}: NODE goes with at least one of {names} ({doc})")
        return self


class FaultNow(Fault):
    """A fault that a user injects by hand during a run. It starts at once unless `at` delays the start."""

    at: Duration = 0.0


FREQUENCY = WithJsonSchema({"type": "string", "examples": ["3/h", "0.5/m", "20s"]})
_RATE = re.compile(r"([0-9.]+) ?/ ?(s|m|min|h)")
_UNIT_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_frequency(value: object) -> float:
    """Return events per second for a rate (`3/h`, `0.5/m`) or a mean time between events (`20s`)."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        often = float(found[1]) / _UNIT_S[found[2]] if found else 1 / parse_duration(value)
    except (ValueError, ZeroDivisionError):
        often = 0.0
    if not 0 < often < 1e6:
        raise ValueError(f"{value!r} is not a rate (such as 3/h, 0.5/m) nor a mean time in between (20s)")
    return often


DRAWN = tuple(kind.name for kind in KINDS.values() if kind.draw is not None)
"""The kinds of `cluster.faults` that can be drawn."""
if TYPE_CHECKING:
    DrawnKind = str
else:
    DrawnKind = _one_of[DRAWN]


class RandomFaults(Section):
    """`random`: faults drawn at random between the times `from` and `until`.

    Either `count` is the number of faults or `rate` is their frequency. Their mean duration is `for`. With
    `spare`, the faults leave at least one available replica of each block at any time.
    """

    rate: Annotated[
        float | None,
        BeforeValidator(parse_frequency),
        FREQUENCY,
        says("mean frequency of faults, such as `3/h`, or the mean time between two faults, such as `20s`"),
    ] = None
    count: Annotated[Positive | None, says("number of faults, as an alternative to `rate`")] = None
    kinds: Annotated[
        list[DrawnKind],
        Field(min_length=1),
        BeforeValidator(as_list),
        one_or_more("string"),
        says("kinds of faults to draw from, such as `kill` and `slow`"),
    ] = list(DRAWN)
    nodes: Annotated[Nodes | None, says("nodes that faults may hit, by default all nodes")] = None
    seed: Annotated[
        Annotated[int, Field(strict=True)] | None,
        says("seed of the random faults, by default the scenario's `seed`"),
    ] = None
    from_: Annotated[Duration, Field(alias="from"), says("earliest time at which a fault may begin")] = 0.0
    until: Annotated[Duration, says("latest time at which a fault may begin")] = 3600.0
    for_: Annotated[
        Duration,
        Field(alias="for", gt=0),
        says("mean duration of a fault. Each fault lasts half to one and a half times as long"),
    ] = 30.0
    spare: Annotated[bool, says("whether at least one replica of each block stays available at any time")] = (
        True
    )

    @model_validator(mode="after")
    def _sensible(self) -> RandomFaults:
        if (self.rate is None) == (self.count is None):
            raise ValueError("expected rate (such as 3/h) or count, one of the two")
        if self.until <= self.from_:
            raise ValueError("until is not later than from")
        return self


class RandomEntry(Section):
    """An entry of the list `faults` that stands for several randomly drawn faults."""

    random: Annotated[RandomFaults, says("settings for faults drawn at random")]


class FaultSources(Section):
    """`faults: {at: [...], random: {...}}`: faults at fixed times, and additional faults drawn at random."""

    at: Annotated[list[Fault], says("list of faults at fixed times")] = []
    random: Annotated[RandomFaults | None, says("settings for additional faults drawn at random")] = None


def _entry_form(value: object) -> str:
    return "many faults" if isinstance(value, RandomEntry | dict) and "random" in dict(value) else "one fault"


def _faults_form(value: object) -> str:
    return "fault sources" if isinstance(value, dict | FaultSources) else "fault list"


# Tags contain a space so that they differ from all keys; error messages leave them out.
Entry = Annotated[
    Annotated[Fault, Tag("one fault")] | Annotated[RandomEntry, Tag("many faults")],
    Discriminator(_entry_form),
]
Faults = Annotated[
    Annotated[list[Entry], Tag("fault list")] | Annotated[FaultSources, Tag("fault sources")],
    Discriminator(_faults_form),
]
"""The type of the key `faults`."""

Given = tuple[tuple[str | int, ...], Any]


def entries(faults: Any) -> list[Given]:
    """Return each `Fault` and `RandomFaults` with its key path below `faults`."""
    if isinstance(faults, FaultSources):
        found: list[Given] = [(("at", index), fault) for index, fault in enumerate(faults.at)]
        return [*found, (("random",), faults.random)] if faults.random else found
    return [
        ((index, "random"), entry.random) if isinstance(entry, RandomEntry) else ((index,), entry)
        for index, entry in enumerate(faults)
    ]
