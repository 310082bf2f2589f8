"""The table KINDS of all kinds of faults, from which all lists of faults derive, and `PlannedFault`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from schedbed.tasks.chance import Coin
from schedbed.tasks.specs import NodeId

Target = Literal["nodes", "attempt", "replica", "jobtracker", "namenode"]
Unit = Literal["share", "time"]

STATE, RESTART, ONCE = "state", "restart", "once"
Duration = Literal["state", "restart", "once"]
"""The duration of a kind of fault.

A `state` lasts until its end time or the run's end. `restart` kills a process, which is started again after the time
given by `for`, or at once without `for`. `once` has no duration.
"""

RESTART_S = 1.5
"""Typical restart time of a process in seconds: the duration of a `restart` fault that names no end time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultParameter:
    """A numeric parameter: `name` in a scenario, `field` of PlannedFault. The unit `share` is in (0, 1]."""

    name: str
    field: str
    unit: Unit
    doc: str
    required: bool = False


def _draw_nothing(luck: Coin, scale: float) -> dict[str, float]:
    """Return no parameters. Every `FaultKind.draw` takes these arguments."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """A kind of fault: its syntax in scenarios, its effect, and the distribution of random faults.

    `spelled` lists the forms of an entry, with "" for the target; by default {name: target}. `held` describes
    a node under the fault. `draw(luck, scale)` returns random parameters, `scale` being a factor on
    durations; None means never at random. `hides_replicas`: the node's replicas are unavailable meanwhile.
    `harms_for_good`: a replica may stay so, such as a corrupt one that nobody reads.
    """

    name: str
    about: str
    example: str
    held: str = ""
    target: Target = "nodes"
    duration: Duration = STATE
    parameters: tuple[FaultParameter, ...] = ()
    spelled: tuple[Mapping[str, str], ...] = ()
    may_hit_all: bool = False
    hides_replicas: bool = False
    harms_for_good: bool = False
    draw: Callable[[Coin, float], dict[str, float]] | None = _draw_nothing

    @property
    def spellings(self) -> tuple[Mapping[str, str], ...]:
        """Return the forms of an entry, in which the value of the first key is the target."""
        return self.spelled or ({self.name: ""},)

    @property
    def hits_master(self) -> bool:
        return self.target in ("jobtracker", "namenode")


def _draw_slow(luck: Coin, scale: float) -> dict[str, float]:
    rates = {name: luck.choice((1.0, luck.uniform(0.1, 0.5))) for name in ("disk", "network")}
    return rates | {"cpu": luck.uniform(0.1, 0.5)}


def _draw_delay(luck: Coin, scale: float) -> dict[str, float]:
    return {"by_s": luck.uniform(1.0, 5.0) * scale}


def _draw_loss(luck: Coin, scale: float) -> dict[str, float]:
    return {"share": luck.uniform(0.05, 0.3)}


def _rate(name: str) -> FaultParameter:
    return FaultParameter(
        name=name,
        field=name,
        unit="share",
        doc="speed that a slow node keeps, as a share of its normal speed: 0.25 is a quarter",
    )


_SHARE = FaultParameter(
    name="share",
    field="share",
    unit="share",
    doc="share of the messages that are lost: 0.1 is 10%",
    required=True,
)
_BY = FaultParameter(
    name="by", field="by_s", unit="time", doc="additional delay of each message", required=True
)

# Random draws use the kinds in this order, so a new row must be appended. A new kind with `draw` changes the
# faults that a seed draws for scenarios that name no kinds.
_ROWS = (
    FaultKind(
        name="kill",
        about="the node fails. With `for`, it comes back after that time with the blocks on its disk",
        example="kill: n3, for: 30s",
        held="killed",
        hides_replicas=True,
    ),
    FaultKind(
        name="freeze",
        about="all processes on the node stop for a while, but its connections stay open",
        example="freeze: n3, for: 20s",
        held="frozen",
        hides_replicas=True,
    ),
    FaultKind(
        name="slow",
        about="the node's CPU, disk or network is slower",
        example="slow: n4, cpu: 0.2, disk: 0.5, network: 0.5, for: 60s",
        held="slowed",
        parameters=(_rate("cpu"), _rate("disk"), _rate("network")),
        draw=_draw_slow,
    ),
    FaultKind(
        name="partition",
        about="the nodes cannot reach other nodes, but still reach the JobTracker and NameNode",
        example="partition: [n1, n2], for: 30s",
        held="cut off from other nodes",
        hides_replicas=True,
    ),
    FaultKind(
        name="cut_off",
        about="with `from: masters`, they cannot reach the JobTracker and NameNode, and are lost "
        "after ten heartbeats",
        example="partition: n1, from: masters, for: 30s",
        held="cut off from the masters",
        spelled=({"partition": "", "from": "masters"},),
        hides_replicas=True,
    ),
    FaultKind(
        name="delay",
        about="messages to and from the node arrive late",
        example="delay: n1, by: 2s, for: 30s",
        held="messages delayed",
        parameters=(_BY,),
        draw=_draw_delay,
    ),
    FaultKind(
        name="loss",
        about="some heartbeats of the node, replies to them, and connections are lost",
        example="loss: n1, share: 0.1, for: 30s",
        held="messages lost",
        parameters=(_SHARE,),
        may_hit_all=True,
        draw=_draw_loss,
    ),
    FaultKind(
        name="lose_requests",
        about="some of the node's heartbeats are lost on the way to the JobTracker",
        example="lose_requests: all, share: 0.1, for: 30s",
        held="heartbeats lost",
        parameters=(_SHARE,),
        may_hit_all=True,
        draw=None,
    ),
    FaultKind(
        name="lose_replies",
        about="some replies to the node's heartbeats are lost on the way back",
        example="lose_replies: all, share: 0.1, for: 30s",
        held="replies lost",
        parameters=(_SHARE,),
        may_hit_all=True,
        draw=None,
    ),
    FaultKind(
        name="fill_disk",
        about="the node's disk is full: tasks that write there fail, but the node keeps running",
        example="fill_disk: n2, for: 30s",
        held="disk filled",
    ),
    FaultKind(
        name="kill_attempt",
        about="the process of one attempt dies: of a named attempt, of the running attempt of a "
        "task, or of `any` attempt",
        example="kill_attempt: job_0001_m_000003",
        target="attempt",
        duration=ONCE,
    ),
    FaultKind(
        name="corrupt_replica",
        about="bytes of one replica are changed: a replica of a block (`blk_...`), of a file "
        "(`/in/...`), or `any`",
        example="corrupt_replica: any, node: n2",
        target="replica",
        duration=ONCE,
        hides_replicas=True,
        harms_for_good=True,
    ),
    FaultKind(
        name="delete_replica",
        about="one replica is deleted: a replica of a block (`blk_...`), of a file (`/in/...`), or `any`",
        example="delete_replica: any",
        target="replica",
        duration=ONCE,
        hides_replicas=True,
        harms_for_good=True,
    ),
    FaultKind(
        name="kill_tracker",
        about="the node's TaskTracker fails with all tasks on the node, and starts again",
        example="kill_tracker: n3",
        held="TaskTracker killed",
        duration=RESTART,
        hides_replicas=True,
    ),
    FaultKind(
        name="kill_host",
        about="all TaskTrackers on the same host as the node fail with their tasks, and start again",
        example="kill_host: n3",
        held="host's process killed",
        duration=RESTART,
        hides_replicas=True,
        draw=None,
    ),
    FaultKind(
        name="crash_jobtracker",
        about="the JobTracker's process dies, and restores its state from its journal when it is back",
        example="crash: jobtracker, for: 10s",
        target="jobtracker",
        duration=RESTART,
        spelled=({"crash": "jobtracker"},),
    ),
    FaultKind(
        name="restart_namenode",
        about="the NameNode's process dies, restarts at once, and asks the nodes which blocks they store",
        example="restart: namenode",
        target="namenode",
        duration=ONCE,
        spelled=({"restart": "namenode"}, {"crash": "namenode"}),
    ),
)
KINDS: dict[str, FaultKind] = {kind.name: kind for kind in _ROWS}
"""All kinds of faults by name."""


def entry_keys() -> dict[str, list[FaultKind]]:
    """Return {first key of an entry, such as `kill`: the kinds that it can mean}."""
    keys: dict[str, list[FaultKind]] = {}
    for kind in KINDS.values():
        for spelling in kind.spellings:
            keys.setdefault(next(iter(spelling)), []).append(kind)
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """A fault from `at_s` to `until_s` (None: the run's end), in seconds since the run's start.

    Without `nodes`, a message fault hits all. `target` is an attempt, task, block or file; `luck`, from 0 to
    1, selects among matches. `cpu`, `disk` and `network` are the fractions of rates that a slow node keeps,
    `share` is the fraction of messages lost, and `by_s` the delay of each.
    """

    at_s: float
    kind: str
    nodes: tuple[NodeId, ...] = ()
    until_s: float | None = None
    cpu: float = 1.0
    disk: float = 1.0
    network: float = 1.0
    share: float = 0.0
    by_s: float = 0.0
    target: str = ""
    luck: float = 0.0

    @property
    def shown(self) -> str:
        """Return the target as text for tables."""
        kind = KINDS[self.kind]
        return kind.target if kind.hits_master else self.target or ",".join(self.nodes)

    @property
    def back_s(self) -> float | None:
        """Return the end or None. A killed process without one is back RESTART_S later, as is typical."""
        if self.until_s is None and KINDS[self.kind].duration == RESTART:
            return self.at_s + RESTART_S
        return self.until_s

    @property
    def lasts(self) -> bool:
        """Return whether the fault has a duration, unlike a killed attempt."""
        return KINDS[self.kind].duration == STATE or self.back_s is not None

    def hits(self, node: NodeId) -> bool:
        return not self.nodes or node in self.nodes
