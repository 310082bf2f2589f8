"""The configuration of an agent, sent to its standard input as JSON: one line, and with TLS a second one of keys."""

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


PATHS = ("root", "links", "quick", "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The configuration of the agent for one incarnation of a node. `heartbeat_s` and rates use real seconds.

    `root` is the agent's folder, and `quick` a folder in memory for files that must not wait for the node's
    disk (by default `root`). `limits` is auto, cgroup, software or off. `epoch_s` is the run's start as Unix
    time, and `stretch` the number of real seconds per emulated second. `runner` is the function that runs an
    attempt, as "module:name".

    The agent listens at the address `listen` and `port`; a port of 0 means any free port, or any in `ports`
    if set. Other nodes reach the agent at `url`, if this differs from the address. `tls` contains the keys to
    serve with, and is None for clear text. `shaped` means that the kernel limits the node's network rate, so
    the agent only counts bytes.

    If `groups` is set, another process creates the node's control groups, and sends the descriptors of their
    files over this socket (`group_files.receive_files`). `links` is the folder with the files that limit the
    rates of rack links and shared disks.
    """

    node: NodeSpec
    root: Path
    token: str
    epoch_s: float
    heartbeat_s: float
    limits: str  # one of LIMIT_MODES
    run_id: str
    stretch: float = 1.0
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
        None  # the folder with the budgets of rack links and shared disks (`link_budgets`), None if none
    )

    def __post_init__(self) -> None:
        if self.limits not in LIMIT_MODES:
            raise ValueError(f"limits: {self.limits!r}, expected one of {', '.join(LIMIT_MODES)}")
        if not self.heartbeat_s > 0:
            raise ValueError(f"heartbeat: {self.heartbeat_s!r}, expected more than 0 seconds")

    def to_lines(self) -> str:
        """Return a JSON line without TLS keys, then one with them: the first zygote is forked between the two."""
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        secret = "" if self.tls is None else json.dumps(asdict(self.tls)) + "\n"
        return json.dumps(asdict(known), default=str) + "\n" + secret

    def with_secret(self, line: str) -> AgentConfig:
        """Return a copy with the keys of `to_lines`' second line. Raises ValueError or TypeError."""
        return replace(self, tls=Tls(**json.loads(line)))

    @staticmethod
    def from_line(line: str) -> AgentConfig:
        """Return the configuration of `to_lines`' first line. Raises ValueError, TypeError or KeyError."""
        raw: dict[str, Any] = json.loads(line)
        paths = {name: None if raw[name] is None else Path(raw[name]) for name in PATHS}
        ports = None if raw["ports"] is None else PortRange(**raw["ports"])
        tls = None if raw["tls"] is None else Tls(**raw["tls"])
        return AgentConfig(**{**raw, **paths, "ports": ports, "tls": tls, "node": NodeSpec(**raw["node"])})
