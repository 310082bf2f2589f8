"""A machine of processes on this host, in a session: the agent, the zygote (which forks attempts), and attempts."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from schedbed.cluster.agent.cgroups import CgroupError, group_name, node_folders, remove_node
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.stopped_groups import ProcessTree
from schedbed.cluster.agent.warm import template
from schedbed.cluster.agent.warm.zygote_link import ONE_THREAD
from schedbed.cluster.machines.kernel_counters import GroupCounters
from schedbed.cluster.machines.machine import KernelTotals, MachineFailed, MachineKind, StartedMachine
from schedbed.cluster.own_python import module_command, module_environment
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.errors import BadInput

START_S = 60.0
STOP_S = 8.0
EXIT_BAD_INPUT = 2


class ProcessMachine:
    """A node's incarnation as processes. After `stop` or `kill`, only the node's files are left."""

    def __init__(self, agent: AgentConfig) -> None:
        self._config = replace(agent, root=agent.root.resolve())
        self._process: ForkedAgent | None = None
        self._group = ""
        self._counters: GroupCounters | None = None  # Set while control groups exist.

    @property
    def node(self) -> NodeSpec:
        return self._config.node

    async def start(self) -> StartedMachine:
        """Start the agent and wait until it accepts requests. Raises BadInput, MachineFailed."""
        try:
            process = self._process = await asyncio.to_thread(self._spawn)
        except TemplateDied as error:
            raise self._no_answer() from error
        self._group = group_name(self._config.node.node, process.pid)
        try:
            line = await asyncio.wait_for(asyncio.to_thread(_greeting, process), START_S)
            said: dict[str, Any] = json.loads(line)
        except (TimeoutError, ValueError, OSError) as error:
            await self.kill()
            raise self._no_answer() from error
        except BaseException:
            await self.kill()
            raise
        if "error" in said:
            code = await asyncio.to_thread(process.wait)
            await self.kill()
            failure = BadInput if code == EXIT_BAD_INPUT else MachineFailed
            raise failure(f"{self._config.node.node}: {said['error']}")
        self._counters = self._find_counters(said["limits"])
        return StartedMachine(url=said["url"], pid=said["pid"], limits=said["limits"])

    async def stop(self) -> None:
        """End the agent by closing its standard input, and kill what still runs after `STOP_S` seconds."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            await self.thaw()
            with contextlib.suppress(OSError):
                process.stdin.close()
            await asyncio.to_thread(process.has_ended_within, STOP_S)
        await self.kill()

    async def kill(self) -> None:
        """Kill all processes of the node, by its control groups or else the agent's descendants."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._counters is None and process.poll() is None:
            await asyncio.to_thread(_end_all_below, process.pid)
        # The process group exists until its leader has been waited for, so its id cannot belong to another
        # group yet.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._reap, process)

    async def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Do nothing, because the agent sets all rates."""

    async def dispose(self) -> None:
        """Do nothing, because all files of the node are in the run's folder."""

    def totals(self) -> KernelTotals:
        """Return CPU time and memory by the node's control groups, all None without them."""
        counters = self._counters
        if counters is None:
            return KernelTotals()
        return KernelTotals(cpu_s=counters.cpu_s(), memory_bytes=counters.memory_bytes())

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def _log(self) -> Path:
        return self._config.root / "agent.log"

    def _find_counters(self, limits: Mapping[str, str]) -> GroupCounters | None:
        """Return the counters of the groups that the agent has created, or None."""
        if not limits["cpu"].startswith("cgroup"):
            return None
        try:
            version, folders = node_folders(self._config.run_id, self._group)
        except CgroupError:
            return None
        cpu = folders.get("cpuacct" if version == 1 else "cpu")
        return GroupCounters(version=version, cpu=cpu, memory=folders.get("memory"))

    def _spawn(self) -> ForkedAgent:
        self._config.root.mkdir(parents=True, exist_ok=True)
        process = TEMPLATE.fork(self._log)
        with contextlib.suppress(OSError):  # A dead agent is detected by its missing greeting.
            process.stdin.write(self._config.to_lines().encode())
            process.stdin.flush()
        return process

    def _no_answer(self) -> MachineFailed:
        return MachineFailed(f"{self._config.node.node}: no answer ({_last_line(self._log)})")

    def _reap(self, process: ForkedAgent) -> None:
        """Wait for the ends of agent and zygote, which share one output pipe, then remove the groups."""
        with process.stdout, contextlib.suppress(OSError):
            while process.stdout.read(65536):
                pass
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        if self._config.limits in ("auto", "cgroup"):
            remove_node(self._config.run_id, self._config.node.node, self._group)

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes, the agent first so that it does not notice stopped children."""
        if not self.is_alive() or self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            agent = psutil.Process(self._process.pid)
            for process in (agent, *agent.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def _end_all_below(pid: int) -> None:
    """Kill a process and its descendants. All are stopped first, so that none can start another."""
    tree = ProcessTree(pid)
    tree.signal(signal.SIGSTOP)
    tree.signal(signal.SIGKILL)


def _last_line(log: Path) -> str:
    """Return the log's last line that is not empty, which describes a Python error."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line for line in reversed(lines) if line.strip()), "the agent said nothing")


def _greeting(process: ForkedAgent) -> bytes:
    return process.stdout.readline()


def _make(agent: AgentConfig, owner: str) -> ProcessMachine:
    del owner  # The agent's group identifies it and ends with it.
    return ProcessMachine(agent)


KIND = MachineKind(about="processes", make=_make)


# Fast start of the agents on this host: all agents are forked from one template process.
#
# The template process (`agent.warm.template`) has imported the agent's modules. It is started on first use.

POLL_S = 0.005


class TemplateDied(OSError):
    """The template process could not be started, or has ended. The reason is in the log of the new agent."""


class AgentTemplate:
    """A client, for all threads, of the process that forks agents; `fork` restarts a dead one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, log: Path) -> ForkedAgent:
        """Fork an agent, whose error messages go to `log`. Raises OSError."""
        with log.open("ab") as said, contextlib.ExitStack() as ends:
            stdin, theirs_in = _pipe()
            stdout, theirs_out = reversed(_pipe())
            for end in (theirs_in, theirs_out):
                ends.callback(os.close, end)
            try:
                answer = self._ask(template.FORK, [theirs_in, theirs_out, said.fileno()], said.fileno())
            except BaseException:
                os.close(stdin)
                os.close(stdout)
                raise
        return ForkedAgent(self, int(answer), os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))

    def status(self, kind: bytes, pid: int) -> int | None:
        """Return the exit code, None while the agent runs, or LOST. The kind REAP frees the pid."""
        try:
            answer = self._ask(kind + b" %d" % pid)
        except OSError:  # The host's init process reaps its agents.
            return template.LOST
        return None if answer == template.ALIVE else int(answer)

    def close(self) -> None:
        """End the template process. Agents that were forked from it continue to run."""
        with self._lock:
            line, process = self._line, self._process
            self._line = self._process = None
        if line is not None and process is not None:
            line.close()
            process.wait()

    def _ask(self, message: bytes, descriptors: list[int] | None = None, log: int | None = None) -> bytes:
        with self._lock:
            if log is not None and (self._process is None or self._process.poll() is not None):
                self._start(log)
            if self._line is None:
                raise TemplateDied("no template")
            try:
                socket.send_fds(self._line, [message], descriptors or [])
                answer = self._line.recv(template.MESSAGE_BYTES)
            except ConnectionError as error:
                raise TemplateDied("the template of agents has died") from error
            if not answer:
                raise TemplateDied("the template of agents has ended")
            return answer

    def _start(self, log: int) -> None:
        if self._line is not None:
            self._line.close()
        atexit.unregister(self.close)
        atexit.register(self.close)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*module_command(template.__name__), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=module_environment() | ONE_THREAD,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )


class ForkedAgent:
    """An agent process forked from a template, with its pid, standard streams and exit code."""

    def __init__(
        self, of: AgentTemplate, pid: int, stdin: io.BufferedWriter, stdout: io.BufferedReader
    ) -> None:
        self._template = of
        self._code: int | None = None
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout

    def poll(self) -> int | None:
        """Return the agent's exit code, or None while the agent runs. The pid stays reserved until `wait`."""
        if self._code is None:
            return self._template.status(template.POLL, self.pid)
        return self._code

    def has_ended_within(self, patience_s: float) -> bool:
        """Wait until the agent has ended, for at most `patience_s` seconds. Return whether it has ended."""
        give_up_s = time.monotonic() + patience_s
        while self.poll() is None and time.monotonic() < give_up_s:
            time.sleep(POLL_S)
        return self.poll() is not None

    def wait(self) -> int:
        """Wait until the agent has ended, and free the pid. Return the exit code (negative for a signal)."""
        while self.poll() is None:
            time.sleep(POLL_S)
        if self._code is None:
            self._code = self._template.status(template.REAP, self.pid)
        assert self._code is not None
        return self._code


def _pipe() -> tuple[int, int]:
    """Return write end and read end of a pipe that children do not inherit."""
    reads, writes = os.pipe2(os.O_CLOEXEC)
    return writes, reads


TEMPLATE = AgentTemplate()
"""The template of this process."""
