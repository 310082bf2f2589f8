"""The configuration of an agent: one JSON line on standard input, and a second line with TLS keys if any."""

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
    """The configuration of one incarnation of a node. Rates and `heartbeat_s` are in real seconds.

    `stretch`: real seconds per emulated second. `epoch_s`: the run's start as Unix time. `runner`: the
    function that runs an attempt. `listen`: address on which the agent serves and other nodes reach it.
    `shaped`: the kernel already limits the NIC, so the agent only counts bytes. `port`: port to serve on; 0
    for any free port, or any of `ports`. `url`: URL by which others reach the agent, if not by `listen`.
    `quick`: folder in memory for files that must not wait for the node's disk; by default `root`. `groups`:
    socket through which the owner passes the node's control groups (`group_files.receive_files`); None if the
    agent creates the groups. `changes`: the run's `StretchFile` if the stretch may change; `stretch` is then
    the initial value. `tls`: keys to serve with; None for clear text.
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
        None  # the folder with the budgets of rack links and shared disks (`link_budgets`), None if none
    )

    def __post_init__(self) -> None:
        if self.limits not in LIMIT_MODES:
            raise ValueError(f"limits: {self.limits!r}, expected one of {', '.join(LIMIT_MODES)}")
        if not self.heartbeat_s > 0:
            raise ValueError(f"heartbeat: {self.heartbeat_s!r}, expected more than 0 seconds")

    def to_lines(self) -> str:
        """Return the JSON line without TLS keys, followed by a line with the keys if there are any.

        Between reading the two lines, the agent forks the process for attempts, whose memory must not contain
        the keys.
        """
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        secret = "" if self.tls is None else json.dumps(asdict(self.tls)) + "\n"
        return json.dumps(asdict(known), default=str) + "\n" + secret

    def with_secret(self, line: str) -> AgentConfig:
        """Return the configuration completed by the second line of `to_lines`, which holds the TLS keys.

        Raises ValueError or TypeError for any other line.
        """
        return replace(self, tls=Tls(**json.loads(line)))

    @staticmethod
    def from_line(line: str) -> AgentConfig:
        """Return the configuration parsed from the first line of `to_lines`.

        Raises ValueError, TypeError or KeyError for any other line.
        """
        raw: dict[str, Any] = json.loads(line)
        paths = {name: None if raw[name] is None else Path(raw[name]) for name in PATHS}
        ports = None if raw["ports"] is None else PortRange(**raw["ports"])
        tls = None if raw["tls"] is None else Tls(**raw["tls"])
        return AgentConfig(**{**raw, **paths, "ports": ports, "tls": tls, "node": NodeSpec(**raw["node"])})
