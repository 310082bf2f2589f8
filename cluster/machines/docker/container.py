"""A machine that is a Docker container. Its main process is the agent, and a volume holds the node's files.

The container ends with the process that started it, which closes the agent's standard input, and the engine
removes it.

The container has the node's CPU quota, with room for the agent, and a memory limit for the node or, if
attempts have control groups, for the agent. `host_limits` limits attempts, disk (a loop device) and NIC (tc).
What the kernel cannot enforce, the agent limits in software, for cooperating code.

With several hosts, the engine publishes each agent's port at its host's address. Packets then lack the nodes'
addresses, by which tc tells data from heartbeats, so the NIC is limited in software.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import queue
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount
from docker.utils.socket import STDOUT, frames_iter

from schedbed.cluster.agent.config import LOOPBACK, AgentConfig
from schedbed.cluster.machines.docker.engine import (
    Labels,
    connect,
    labels,
    one_line,
    remove_container,
    run_name,
)
from schedbed.cluster.machines.docker.host_limits import HostLimits
from schedbed.cluster.machines.docker.image import node_image
from schedbed.cluster.machines.machine import KernelTotals, MachineFailed, StartedMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.tls import scheme_of
from schedbed.tasks.errors import BadInput

log = logging.getLogger(__name__)

START_S = 120.0  # Fifty containers may start at the same time on two cores.
STOP_S = 10.0
REACH_S = 5.0
AGENT_CORES = 0.3  # Host cores for the agent (blocks, shuffles), in addition to the node's cores.
AGENT_BYTES = 256 * 2**20  # For the agent, the zygote and page cache, in addition to the node's memory.
PERIOD_US = 100_000
PIDS = 512
UID = 1000  # No process of a node runs as root.
USER = f"{UID}:{UID}"
DATA = Path("/data")
QUICK = Path("/run/schedbed")
GROUPS = Path("/groups")
LINKS = Path("/links")
PORT = 8480  # The port of a published agent inside its container.
LOG_TAIL = 4
CGROUP_V2 = Path("/sys/fs/cgroup/cgroup.controllers")


class DockerMachine:
    """A node's incarnation in a container. The volume with its files remains until `dispose`.

    `agent.root` is a folder of this host for log and disk image, `agent.listen` its address for other hosts,
    or loopback. `owner` is an `owner_mark`.
    """

    def __init__(self, agent: AgentConfig, owner: str) -> None:
        self._host_ports = "" if agent.ports is None else str(agent.ports)
        self._published = "" if agent.listen == LOOPBACK else agent.listen
        self._kernel = agent.limits in ("auto", "cgroup")
        self._links = agent.links
        self._config = replace(
            agent,
            root=DATA,
            quick=QUICK,
            listen=agent.node.node,  # The engine resolves the node's name to its address.
            port=PORT if self._published else 0,
            ports=None,
            links=None if agent.links is None else LINKS,
        )
        self._image = ""
        self._labels = labels(agent.run_id, owner)
        self._root = agent.root
        self._log = agent.root / "agent.log"
        self._name = f"{run_name(agent.run_id)}-{agent.node.node}"
        self._limits = HostLimits(agent, self._name, self._labels, USER)
        self._client: docker.DockerClient | None = None
        self._streams: Streams | None = None
        self._paused = self._dead = False

    @property
    def node(self) -> NodeSpec:
        return self._config.node

    async def start(self) -> StartedMachine:
        """Create and start the container, and wait for the agent. Raises BadInput, MachineFailed."""
        try:
            return await asyncio.to_thread(self._start)
        except BaseException as error:
            await self.kill()
            if isinstance(error, DockerException | OSError) and getattr(error, "errno", None) is None:
                raise MachineFailed(f"{self.node.node}: Docker: {one_line(error)}") from error
            raise

    async def stop(self) -> None:
        """End the container by closing the agent's standard input, or kill it after `STOP_S` seconds."""
        if self._streams is not None:
            await self.thaw()
            self._streams.close_input()
            await asyncio.to_thread(self._streams.ended.wait, STOP_S)
        await self.kill()

    async def kill(self) -> None:
        """Kill (SIGKILL) all processes of the container and remove the container. The node's disk remains."""
        self._dead = True
        streams, self._streams = self._streams, None
        client, self._client = self._client, None
        if client is None:
            return
        with contextlib.closing(client):
            await asyncio.to_thread(self._clear, client.api)
            if streams is not None:
                await asyncio.to_thread(streams.close)

    async def dispose(self) -> None:
        """Remove the node's volume, and the run's network if no container uses it. Must be called after `stop`."""
        await asyncio.to_thread(self._dispose)

    async def freeze(self) -> None:
        """Stop all processes of the container with the kernel's freezer."""
        if self.is_alive() and not self._paused:
            self._paused = True
            await asyncio.to_thread(self._api.pause, self._name)

    async def thaw(self) -> None:
        """Continue all processes of the container, which `freeze` has stopped."""
        if self._paused:
            self._paused = False
            with contextlib.suppress(APIError):  # The container may have died.
                await asyncio.to_thread(self._api.unpause, self._name)

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Set disk and NIC to the declared rates times these factors. The agent applies `cpu` to its attempts."""
        del cpu
        if self._kernel and self.is_alive():
            await asyncio.to_thread(self._limits.set_rates, disk, network)

    def totals(self) -> KernelTotals:
        return self._limits.totals()

    def is_alive(self) -> bool:
        return self._streams is not None and not self._streams.ended.is_set()

    def _dispose(self) -> None:
        with contextlib.closing(connect()) as client:
            with contextlib.suppress(NotFound):
                client.api.remove_volume(self._name)
            with contextlib.suppress(APIError):  # The network is in use, or removed already.
                client.api.remove_network(run_name(self._config.run_id))

    # ------------------------------------------------------------------ start

    @property
    def _api(self) -> Any:
        assert self._client is not None
        return self._client.api

    def _start(self) -> StartedMachine:
        self._client = connect()
        api = self._client.api
        self._root.mkdir(parents=True, exist_ok=True)
        self._image = self._prepare(self._client)
        remove_container(api, self._name)  # A container of an incarnation with a dead owner may be left.
        self._limits.prepare(api)
        api.create_container(
            self._image,
            ["python3", "-m", "schedbed.cluster.agent.agent"],
            name=self._name,
            hostname=self.node.node,
            user=USER,
            stdin_open=True,
            labels=self._labels,
            environment={"OPENBLAS_NUM_THREADS": "1"},
            ports=[PORT] if self._published else None,
            host_config=self._host_config(api),
        )
        streams = self._streams = Streams(api, self._name, self._log)
        if self._dead:  # The machine was killed during creation.
            remove_container(api, self._name)
            raise MachineFailed(f"{self.node.node}: killed at its start")
        api.start(self._name)
        held = self._held(api)
        config = replace(
            self._config,
            shaped="network" in held,
            url=self._url(api),
            limits=self._agent_limits(),
            groups=None if self._limits.groups is None else GROUPS,
        )
        streams.send(config.to_lines())
        hello = self._greeting(streams)
        _check_reachable(hello.url)
        return StartedMachine(url=hello.url, pid=hello.pid, limits=dict(hello.limits) | held)

    def _prepare(self, client: docker.DockerClient) -> str:
        """Build the image and the run's network, unless another node has done so. Return the image's tag."""
        with (self._root.parent / "docker.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            prepare_network(client, self._config.run_id, self._labels, internal=not self._published)
            return node_image(client)

    def _published_at(self) -> tuple[str, ...]:
        """Return the host address at which the agent's port is published and, if set, the range of host ports."""
        return (self._published, self._host_ports) if self._host_ports else (self._published,)

    def _url(self, api: Any) -> str:
        """Return the agent's URL for other hosts, or "" without any."""
        if not self._published:
            return ""
        port = api.port(self._name, PORT)[0]["HostPort"]
        return f"{scheme_of(self._config.tls)}://{self._published}:{port}"

    def _greeting(self, streams: Streams) -> StartedMachine:
        text = streams.first(START_S)
        if not text:
            raise MachineFailed(f"{self.node.node}: no answer from its container: {self._last_words()}")
        said: dict[str, Any] = json.loads(text)
        if "error" in said:
            raise MachineFailed(f"{self.node.node}: {said['error']}")
        return StartedMachine(url=said["url"], pid=said["pid"], limits=said["limits"])

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n") if self._log.exists() else []
        return " | ".join([line.strip() for line in lines if line.strip()][-LOG_TAIL:]) or "it said nothing"

    def _agent_limits(self) -> str:
        """Return how the agent limits attempts. `cgroup` means control groups that the host has created."""
        if self._config.limits == "off":
            return "off"
        return "software" if self._limits.groups is None else "cgroup"

    def _host_config(self, api: Any) -> dict[str, Any]:
        config = self._config
        mounts = [Mount(str(DATA), self._name, type="volume")]
        if self._links is not None:
            self._links.chmod(0o755)
            for link in self._links.iterdir():
                link.chmod(0o666)
            mounts.append(Mount(str(LINKS), str(self._links), type="bind"))
        if self._limits.groups is not None:
            mounts.append(Mount(str(GROUPS), str(self._limits.groups), type="bind"))
        kernel: dict[str, Any] = {}
        if self._kernel:
            memory = AGENT_BYTES + (config.node.memory_bytes if self._limits.groups is None else 0)
            kernel = {
                "cpu_period": PERIOD_US,
                "cpu_quota": round((self.node.cpu_rate + AGENT_CORES) * PERIOD_US),
                "mem_limit": memory,
                "memswap_limit": memory,
            }
        return api.create_host_config(
            auto_remove=True,
            # The agent is process 1 of the container, which attempts can neither kill nor stop. With Docker's init,
            # the agent would be another process, which attempts could trace to leave their groups.
            init=False,
            read_only=True,
            tmpfs={
                "/tmp": "rw,nosuid,nodev,noexec,size=16m",
                str(QUICK): f"rw,nosuid,nodev,noexec,size=1m,mode=700,uid={UID},gid={UID}",
            },
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=PIDS,
            mounts=mounts,
            network_mode=run_name(config.run_id),
            log_config={"Type": "none"},
            port_bindings={PORT: self._published_at()} if self._published else None,
            **kernel,
        )

    # ----------------------------------------------------------------- limits

    def _held(self, api: Any) -> dict[str, str]:
        """Apply `HostLimits` to the container. Return {resource: what limits it}. Raises BadInput."""
        held = self._limits.hold(api, self._image)
        if self._kernel and self._limits.groups is None:
            held["memory"] = f"docker cgroup v{2 if CGROUP_V2.exists() else 1}"
        return held

    def _clear(self, api: Any) -> None:
        remove_container(api, self._name)
        self._limits.release(api)


def _check_reachable(url: str) -> None:
    """Raise BadInput if this host cannot connect to the URL of an agent."""
    host, _, port = urlsplit(url).netloc.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except OSError as error:
        raise BadInput(
            f"--machines docker: containers are up but {host} cannot be reached ({error}); expected the engine "
            "on this host, not in a virtual machine or on another"
        ) from None


def prepare_network(
    client: docker.DockerClient, run_id: str, labels: Labels, *, internal: bool = True
) -> None:
    """Create a run's bridge network if it is missing. An `internal` one reaches no outside address."""
    try:
        client.api.inspect_network(run_name(run_id))
        return
    except NotFound:
        pass
    try:
        client.api.create_network(
            run_name(run_id), driver="bridge", internal=internal, labels=labels, check_duplicate=True
        )
    except APIError as error:
        raise BadInput(f"--machines docker: no network for the run: {one_line(error)}") from None


# The standard input, output and error of a container, kept open while the container runs.

END_S = 10.0  # The time allowed for the engine to close a stream.


class Streams:
    """The standard streams of one container. Standard error is written to the file `log` on this host."""

    def __init__(self, api: Any, container: str, log: Path) -> None:
        """Attach to a container before its start, so that no output is missed."""
        self._stream = api.attach_socket(
            container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        )
        self._socket: socket.socket = self._stream._sock
        self._socket.settimeout(None)
        self._log = log
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.ended = threading.Event()
        threading.Thread(target=self._pump, daemon=True, name=f"{container} output").start()

    def send(self, text: str) -> None:
        """Write to standard input. A dead container is detected later by its missing output."""
        with contextlib.suppress(OSError):
            self._socket.sendall(text.encode())

    def first(self, patience_s: float) -> bytes:
        """Return the first line of standard output, or empty after `patience_s` seconds or its end."""
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=patience_s)
        return b""

    def close_input(self) -> None:
        """Close the container's standard input."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close all streams of the container."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.ended.wait(END_S)
        self._stream._response.close()  # Without this, the response would report an error when freed.
        self._socket.close()

    def _pump(self) -> None:
        left = b""
        try:
            with contextlib.suppress(OSError), self._log.open("ab", buffering=0) as log:
                for stream, data in frames_iter(self._stream, tty=False):
                    if stream == STDOUT:
                        *lines, left = (left + data).split(b"\n")
                        for line in lines:
                            self._lines.put(line)
                    else:
                        log.write(data)
        finally:
            self.ended.set()
            self._lines.put(b"")
