"""The configuration that all processes of a run share, which masters read from a file also after a restart."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from schedbed.cluster.agent.cgroups import owner_mark
from schedbed.cluster.agent.config import LOOPBACK
from schedbed.cluster.agent.link_budgets import make_links
from schedbed.cluster.clock import RunClock
from schedbed.cluster.spec import (
    NO_LINK_RATES,
    BlockSettings,
    ClusterSpec,
    DynamicReplicas,
    NodeSpec,
    shared_disks,
)
from schedbed.cluster.wire.port_range import PortRange
from schedbed.cluster.wire.tls import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """The configuration of a run of one policy on one cluster. `epoch_s` is its start as Unix time.

    `policy` is the policy's name in outputs, `given` its SPEC: a text such as `delay:node_wait=5s`, or a
    mapping. `speculation` and `sizes` have the same form.
    """

    run_id: str
    policy: str
    given: Any
    scale: float
    seed: int
    epoch_s: float
    token: str
    work: Path
    cluster: ClusterSpec
    speculation: Any = "none"
    sizes: Any = "true"
    framework: Any = None  # the fields of `scheduler.framework.Framework`, None for none
    profiles: str = "store"  # the profile store of a policy that names none
    machines: str = "process"  # the kind of machine that holds a node: one of cluster.machines.make.KINDS
    owner: str = field(default_factory=owner_mark)  # the process after whose death leftovers are removed
    host_speed: float = 1.0  # the speed of a core of the host; a core of the slowest host has 1
    ports: PortRange | None = None  # the range of all listening TCP ports, None for any port
    tls: Tls | None = None  # the keys of agents' servers, None for clear text
    listen: str = LOOPBACK  # the address on which agents serve: the host's address if there are several hosts

    def clock(self) -> RunClock:
        return RunClock(self.epoch_s, self.cluster.stretch)

    def node_root(self, node: str) -> Path:
        return self.work / "nodes" / node

    @property
    def links(self) -> Path | None:
        """Return the folder of the files that limit rack links and shared disks, or None without any."""
        has = self.cluster.links != NO_LINK_RATES or shared_disks(self.cluster.nodes)
        return self.work / "nodes" / ".links" if has else None

    def make_work(self) -> None:
        """Create the folder of this host's nodes, with the files that limit rack links and shared disks."""
        (self.work / "nodes").mkdir(parents=True, exist_ok=True)
        if self.links is not None:
            make_links(self.links, self.cluster.nodes, self.cluster.links, self.cluster.stretch)

    def save(self, control: Path) -> None:
        """Store this as the current run's configuration, without the private TLS key: attempts can read it."""
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        raw = asdict(known) | {"work": str(self.work)}
        temporary = control / "current.json.tmp"
        temporary.write_text(json.dumps(raw))
        temporary.chmod(0o600)
        temporary.rename(control / "current.json")

    @staticmethod
    def load(control: Path) -> RunConfig | None:
        """Return the configuration of the current run from the folder `control`, or None without a run."""
        try:
            raw: dict[str, Any] = json.loads((control / "current.json").read_text())
        except FileNotFoundError:
            return None
        cluster = raw["cluster"]
        cluster["nodes"] = tuple(NodeSpec(**node) for node in cluster["nodes"])
        blocks = cluster["blocks"]
        if blocks["replicas"] is not None:
            blocks["replicas"] = DynamicReplicas(**blocks["replicas"])
        cluster["blocks"] = BlockSettings(**blocks)
        raw["ports"] = None if raw["ports"] is None else PortRange(**raw["ports"])
        raw["tls"] = None if raw["tls"] is None else Tls(**raw["tls"])
        return RunConfig(**{**raw, "work": Path(raw["work"]), "cluster": ClusterSpec(**cluster)})

    @staticmethod
    def clear(control: Path) -> None:
        (control / "current.json").unlink(missing_ok=True)


def hold_down(control: Path, master: str, until_s: float) -> None:
    """Keep a master from serving until a Unix time, by a file that a restarted master reads."""
    (control / f"{master}.down").write_text(str(until_s))


def is_held_down(control: Path, master: str, now_s: float) -> bool:
    """Return whether a fault (`hold_down`) keeps `master` from serving at the Unix time `now_s`."""
    try:
        return now_s < float((control / f"{master}.down").read_text())
    except FileNotFoundError:
        return False
