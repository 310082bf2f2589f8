"""The configuration that all actors of a run share.

The masters read it from a file on the driver's host, also after a restart. Nodes, which may be on other hosts,
receive it when they start.
"""

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
from schedbed.tasks.stretch_file import StretchFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A run of one policy on one cluster.

    `epoch_s`: its start as time of day. `work`: its scratch folder. `policy`: its name in every output. `given`: what
    makes it, a name, SPEC or mapping; `speculation` and `sizes` are in the same form.
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
    profiles: str = "store"  # the profile store of a policy that names none
    machines: str = "process"  # what nodes are made of: one of cluster.machines.make.KINDS
    owner: str = field(default_factory=owner_mark)  # the process for which all is made
    host_speed: float = 1.0  # of a core of the host, where 1 is a core of the slowest host
    ports: PortRange | None = None  # where all that listens on TCP does, None for anywhere
    tls: Tls | None = None  # what agents serve with, None for clear text
    adaptive: bool = False  # the stretch may change in mid-run, `cluster.stretch` is the first
    listen: str = LOOPBACK  # where a node's agent serves: the address of its host when there are several

    def clock(self) -> RunClock:
        """Return the run's clock."""
        return RunClock(self.epoch_s, self.cluster.stretch, self.changes)

    @property
    def changes(self) -> Path | None:
        """Return the path of the run's `StretchFile`; None if the stretch is fixed."""
        return self.work / "nodes" / ".stretch" if self.adaptive else None

    def node_root(self, node: str) -> Path:
        """Return the folder in which the node's agent keeps its files."""
        return self.work / "nodes" / node

    @property
    def links(self) -> Path | None:
        """Return the folder with the budgets of links between racks and of shared disks; None without them."""
        has = self.cluster.links != NO_LINK_RATES or shared_disks(self.cluster.nodes)
        return self.work / "nodes" / ".links" if has else None

    def make_work(self) -> None:
        """Create on this host what nodes need when they start: their folder, and the budgets of links."""
        (self.work / "nodes").mkdir(parents=True, exist_ok=True)
        if self.changes is not None:
            StretchFile.create(self.changes, RunClock.host_time_s(), self.cluster.stretch)
        if self.links is not None:
            make_links(self.links, self.cluster.nodes, self.cluster.links, self.cluster.stretch)

    def save(self, control: Path) -> None:
        """Write this run to the control folder as the current one.

        The file contains no private key, since attempts can read it.
        """
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        raw = asdict(known) | {"work": str(self.work)}
        temporary = control / "current.json.tmp"
        temporary.write_text(json.dumps(raw))
        temporary.chmod(0o600)
        temporary.rename(control / "current.json")

    @staticmethod
    def load(control: Path) -> RunConfig | None:
        """Return the current run of this control folder; None if there is none."""
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
        """Remove the current run from the control folder."""
        (control / "current.json").unlink(missing_ok=True)


def hold_down(control: Path, master: str, until_s: float) -> None:
    """Inject a fault: a master that restarts must not serve before this time of day."""
    (control / f"{master}.down").write_text(str(until_s))


def is_held_down(control: Path, master: str, now_s: float) -> bool:
    """Return whether a fault keeps that master from serving at this time of day."""
    try:
        return now_s < float((control / f"{master}.down").read_text())
    except FileNotFoundError:
        return False
