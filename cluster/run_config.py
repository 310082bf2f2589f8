"""What every actor of a run must know.

The masters find it in a file of the driver's host, also after a restart; nodes, which may lie on other hosts, are
told it when they are begun.
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
    """One run of one policy on one cluster: `epoch_s` is its start as a time of day, `work` its scratch folder.

    `policy` is its name in every output, `given` what makes it: a name, a SPEC string or a mapping, as are
    `speculation` and `sizes`.
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
        """Return the run's `StretchFile`, None when the stretch stays as it is."""
        return self.work / "nodes" / ".stretch" if self.adaptive else None

    def node_root(self, node: str) -> Path:
        """Return where that node's agent keeps its files."""
        return self.work / "nodes" / node

    @property
    def links(self) -> Path | None:
        """Return the folder with the budgets of links between racks and of shared disks, None when there are none."""
        has = self.cluster.links != NO_LINK_RATES or shared_disks(self.cluster.nodes)
        return self.work / "nodes" / ".links" if has else None

    def make_work(self) -> None:
        """Make on this host what the nodes find there when they start: their folder, and the budgets of links."""
        (self.work / "nodes").mkdir(parents=True, exist_ok=True)
        if self.changes is not None:
            StretchFile.create(self.changes, RunClock.host_time_s(), self.cluster.stretch)
        if self.links is not None:
            make_links(self.links, self.cluster.nodes, self.cluster.links, self.cluster.stretch)

    def save(self, control: Path) -> None:
        """Make this the run that actors of this control folder belong to. The file has no private key: attempts may
        read it."""
        known = self if self.tls is None else replace(self, tls=self.tls.public())
        raw = asdict(known) | {"work": str(self.work)}
        temporary = control / "current.json.tmp"
        temporary.write_text(json.dumps(raw))
        temporary.chmod(0o600)
        temporary.rename(control / "current.json")

    @staticmethod
    def load(control: Path) -> RunConfig | None:
        """Return the run that goes on in this control folder, None when there is none."""
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
        """No run goes on here."""
        (control / "current.json").unlink(missing_ok=True)


def hold_down(control: Path, master: str, until_s: float) -> None:
    """A fault: a master that restarts does not serve before this time of day."""
    (control / f"{master}.down").write_text(str(until_s))


def is_held_down(control: Path, master: str, now_s: float) -> bool:
    """Tell whether a fault keeps that master from serving now (a time of day)."""
    try:
        return now_s < float((control / f"{master}.down").read_text())
    except FileNotFoundError:
        return False
