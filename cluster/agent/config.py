"""What an agent is told at its start: one JSON line on its standard input, and one with its private key."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.port_range import PortRange
from schedbed.cluster.wire.tls import Tls

LIMIT_MODES = ("auto", "cgroup", "software", "off")
LOOPBACK = "127.0.0.1"
RUNNER = "schedbed.tasks.attempt:run_attempt"


PATHS = ("root", "links", "quick", "groups", "changes")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """One life of one node, its rates and `heartbeat_s` in real seconds, of which an emulated one lasts `stretch`.

    `epoch_s` is the run's start as a time of day; `runner` is what an attempt runs; `listen` the address that the agent
    serves on, by which the other nodes reach it; `shaped` that the kernel holds the NIC to its rate already, so that
    the agent only counts what passes; `port` where it serves, 0 for any of `ports`; `url` how others reach it where
    that is not the address that it serves on; `quick` a folder in memory, for what must not wait for the node's disk,
    where that is not `root`; `groups` the socket where whoever holds the node hands over its control groups
    (`group_files.receive_files`), None where the agent makes them itself; `changes` the run's `StretchFile` where the
    stretch may change, `stretch` then the first; `tls` what the agent serves with, None for clear text.
    """

    node: NodeSpec
    root: Path
    token: str
    epoch_s: float
    heartbeat_s: float
    limits: str  # one of LIMIT_MODES
    run_id: str
    stretch: float = 1.0
    changes: Path | None = None
    runner: str = RUNNER
    listen: str = LOOPBACK
    port: int = 0
    ports: PortRange | None = None
    tls: Tls | None = None
    url: str = ""
    shaped: bool = False
    quick: Path | None = None
    groups: Path | None = None
    links: Path | None = (
        None  # the budgets of the links between racks (`link_budgets`), None when none has a limit
    )

    def __post_init__(self) -> None:
        if self.limits not in LIMIT_MODES:
            raise ValueError(f"limits: {self.limits!r}, expected one of {', '.join(LIMIT_MODES)}")
        if not self.heartbeat_s > 0:
            raise ValueError(f"heartbeat: {self.heartbeat_s!r}, expected more than 0 seconds")

    def to_lines(self) -> str:
        """Return the JSON line without what serves TLS, then that as a line of its own, where there is TLS.

        The agent forks a process for attempts between the two, in whose memory the key must not be.
        """
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        secret = "" if self.tls is None else json.dumps(asdict(self.tls)) + "\n"
        return json.dumps(asdict(known), default=str) + "\n" + secret

    def with_secret(self, line: str) -> AgentConfig:
        """Return the whole, told the second line of `to_lines`. Raises ValueError or TypeError on anything else."""
        return replace(self, tls=Tls(**json.loads(line)))

    @staticmethod
    def from_line(line: str) -> AgentConfig:
        """Return what the first line of `to_lines` says; raises ValueError, TypeError or KeyError on anything else."""
        raw: dict[str, Any] = json.loads(line)
        paths = {name: None if raw[name] is None else Path(raw[name]) for name in PATHS}
        ports = None if raw["ports"] is None else PortRange(**raw["ports"])
        tls = None if raw["tls"] is None else Tls(**raw["tls"])
        return AgentConfig(**{**raw, **paths, "ports": ports, "tls": tls, "node": NodeSpec(**raw["node"])})
