"""`schedbed doctor --security`: tests whether a run's listeners refuse clients without a token."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live.live_runs import LiveRuns
from schedbed.deploy.live.live_session import OnStatus, Session
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.deploy.options import RunOptions
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.security.listeners import Listener, listeners_of
from schedbed.deploy.security.strange_calls import ports_of
from schedbed.deploy.security.stranger import NOBODY, TLS, ClientAnswer, try_all
from schedbed.deploy.service.api import Api
from schedbed.deploy.service.users.user_book import UserBook
from schedbed.deploy.whole_run import run_scenario
from schedbed.deploy.workspace import owned

SCENARIO, NODES = "quickstart", 2
NOT_TRIED = "needs root"
_RAYS = {
    "gcs_server": "Ray's GCS",
    "raylet": "Ray's raylet",
    "ray::RuntimeEnvAgent": "Ray's agent for environments",
}
_OURS = {"HTTP": "WebHDFS", "frames": "calls to it"}


@dataclass(frozen=True, slots=True)
class TriedListener:
    """A listening socket, and its answers to clients without a token: of this user, and of another (if
    tried).

    `modes` are the file modes of a unix socket and of the folder that protects it.
    """

    listener: Listener
    own: ClientAnswer
    other: ClientAnswer | None
    modes: str = ""

    @property
    def is_right(self) -> bool:
        return self.own.is_right and (self.other is None or self.other.is_right)

    @property
    def what(self) -> str:
        """Return the purpose of the listener as a short text."""
        process = self.listener.process
        if process.startswith("agent "):
            return "blocks, map outputs and control of a node"
        if process in _RAYS:
            return _RAYS[process]
        if process.startswith("ray::"):
            actor = process.removeprefix("ray::").removesuffix("Actor")
            return (
                "Ray's calls to it" if self.own.way == "gRPC" else f"{actor}: {_OURS.get(self.own.way, '?')}"
            )
        return "Ray's calls to it" if self.own.way == "gRPC" else "API of a cluster that stays up"

    @property
    def protection(self) -> str:
        """Return a short text that says what protects the listener: a token, file modes or TLS."""
        if self.listener.is_unix:
            return f"unix socket {self.modes}"
        is_rays = self.own.way == "gRPC" or self.listener.process in _RAYS
        token = "Ray's token" if is_rays else "a token of its own"
        if self.listener.is_loopback:
            return token
        return f"{token}; not on loopback, {'TLS' if self.own.way == TLS else 'in clear'}"

    def row(self) -> tuple[str, ...]:
        """Return the cells of the listener's row in the printed table."""
        listener = self.listener
        where = Path(listener.address).name if listener.is_unix else listener.where
        process = f"{listener.process} ({listener.pid})" if listener.pid else listener.process
        other = NOT_TRIED if self.other is None else self.other.answer
        return where, process, self.what, self.protection, self.own.answer, other


def _modes(path: Path) -> str:
    """Return the modes of a unix socket and of the closest folder that keeps other users out, as text."""
    closed = [each for each in path.parents if not each.stat().st_mode & stat.S_IXOTH]
    own = stat.S_IMODE(path.stat().st_mode)
    folder = f", folder {stat.S_IMODE(closed[0].stat().st_mode):04o}" if closed else ""
    return f"{own:04o}{folder}"


class _TriedRuns(LiveRuns):
    """A live run that tests the listeners of its cluster and then shuts the cluster down."""

    tried: Sequence[TriedListener] = ()

    def _follow(self, cluster: RayCluster, session: Session, on_status: OnStatus) -> None:
        """Serve the HTTP API of a cluster that stays up, and test all listeners. No workload is run.

        No service performs requests, so one that passes the token check causes an error, which shows that it
        was not refused.
        """
        nothing = SimpleNamespace(book=UserBook())
        with Api(cast(Any, nothing), secrets.token_hex(32), self._options.ports):
            self.tried = try_listeners(session.agents)


def try_listeners(agents: Mapping[str, str]) -> list[TriedListener]:
    """Probe all listeners of this process, its children and the agents without a token, as root also as
    another user.
    """
    found = listeners_of(os.getpid(), ports_of(agents))
    ports = {listener.port for listener in found}
    for node, url in agents.items():
        place = urlsplit(url)
        # Agents in containers have sockets that this host does not list.
        if place.port and place.port not in ports:
            found.append(Listener(place.hostname or "", place.port, f"agent {node}", 0))
    own = try_all(found)
    other = try_all(found, NOBODY) if os.getuid() == 0 else [None] * len(found)
    modes = [_modes(Path(each.address)) if each.is_unix else "" for each in found]
    return [TriedListener(*each) for each in zip(found, own, other, modes, strict=True)]


def examine_security(console: Console, machines: str = "process") -> None:
    """Test a live cluster's listeners without a token, print the answers and remove it.

    Raises RunFailed if one gets an answer, and BadInput if the cluster cannot be started.
    """
    tried = _try_a_cluster(machines)
    columns = ("listener", "process", "what", "protected by", "without token", "another user")
    table = Table(*columns, box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.columns[0].no_wrap = True
    for each in tried:
        table.add_row(*each.row())
    console.print(table)
    if any(each.other is None for each in tried):
        console.print("Another user was not tried, which only root can.")
    console.print(_summary(tried))
    wrong = [f"{each.listener} ({each.own.answer})" for each in tried if not each.is_right]
    if wrong:
        raise RunFailed(f"a stranger gets an answer from {', '.join(wrong)}")


def _summary(tried: Sequence[TriedListener]) -> str:
    outside = [each.listener.where for each in tried if not each.listener.is_loopback]
    where = f"not on loopback: {', '.join(outside)}" if outside else "all on loopback or in the file system"
    return f"{len(tried)} listeners, {where}; {sum(each.is_right for each in tried)} keep strangers out."


def _try_a_cluster(machines: str) -> Sequence[TriedListener]:
    scenario = resolve(Path(SCENARIO), nodes=NODES, policies=["fifo"], idle=True)
    with tempfile.TemporaryDirectory(prefix=owned("doctor-")) as folder:
        options = RunOptions(out=Path(folder) / "out", machines=machines, live=False, check=False, webhdfs=0)
        runs = _TriedRuns(scenario, options)
        with contextlib.redirect_stdout(io.StringIO()):
            run_scenario(scenario, options, lambda *_: runs)
    return runs.tried
