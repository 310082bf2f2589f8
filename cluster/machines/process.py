"""A machine that consists of processes on this host, in a separate session.

The processes are the agent, the zygote (which forks attempts), and the attempts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from schedbed.cluster.agent.cgroup_find import CgroupError
from schedbed.cluster.agent.cgroups import group_name, node_folders, remove_node
from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.software.process_tree import ProcessTree
from schedbed.cluster.machines.forked_agent import TEMPLATE, ForkedAgent, TemplateDied
from schedbed.cluster.machines.kernel_counters import GroupCounters
from schedbed.cluster.machines.machine import KernelTotals, MachineFailed, MachineKind, StartedMachine
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.errors import BadInput

START_S = 60.0
STOP_S = 8.0
EXIT_BAD_INPUT = 2


class ProcessMachine:
    """An incarnation of a node as processes on this host.

    After `stop` or `kill`, only the files in the node's folder are left.
    """

    def __init__(self, agent: AgentConfig) -> None:
        self._config = replace(agent, root=agent.root.resolve())
        self._process: ForkedAgent | None = None
        self._group = ""
        self._counters: GroupCounters | None = None  # Set while control groups exist.

    @property
    def node(self) -> NodeSpec:
        """Return the specification of the node."""
        return self._config.node

    async def start(self) -> StartedMachine:
        """Start the agent and wait until it accepts requests.

        Raises BadInput if the requested limits are impossible on this host, MachineFailed if the agent does
        not start.
        """
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
        """End the agent by closing its standard input, which ends all processes of the node.

        Processes that still run after `STOP_S` seconds are killed.
        """
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
        """Kill (SIGKILL) the agent, the zygote and all processes of attempts, of any session or user.

        If the node has control groups, the processes in them are killed and the groups removed. Otherwise the
        agent's descendants are killed.
        """
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
        """Stop all processes of the machine with SIGSTOP."""
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        """Continue all processes of the machine with SIGCONT."""
        self._signal_all(signal.SIGCONT)

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Do nothing, because the agent sets all rates."""

    async def dispose(self) -> None:
        """Do nothing, because all files of the node are in the run's folder."""

    def totals(self) -> KernelTotals:
        """Return the CPU time and memory used by the node, from the counters of its control groups.

        All values are None if the node has no control groups.
        """
        counters = self._counters
        if counters is None:
            return KernelTotals()
        return KernelTotals(cpu_s=counters.cpu_s(), memory_bytes=counters.memory_bytes())

    def is_alive(self) -> bool:
        """Return whether the node's agent is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def _log(self) -> Path:
        return self._config.root / "agent.log"

    def _find_counters(self, limits: Mapping[str, str]) -> GroupCounters | None:
        """Return the counters of the control groups that the agent has created, or None if there are none.

        `limits` maps resources to the mechanism by which the agent limits them.
        """
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
        """Wait until the agent and the zygote have ended, then remove the node's control groups.

        Both processes share one standard output, and have ended when this pipe is closed.
        """
        with process.stdout, contextlib.suppress(OSError):
            while process.stdout.read(65536):
                pass
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        if self._config.limits in ("auto", "cgroup"):
            remove_node(self._config.run_id, self._config.node.node, self._group)

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the machine.

        The agent receives the signal first. Otherwise it could notice that its children are stopped.
        """
        if not self.is_alive() or self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            agent = psutil.Process(self._process.pid)
            for process in (agent, *agent.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def _end_all_below(pid: int) -> None:
    """Kill a process and all its descendants. All are stopped first, so that none can start another."""
    tree = ProcessTree(pid)
    tree.signal(signal.SIGSTOP)
    tree.signal(signal.SIGKILL)


def _last_line(log: Path) -> str:
    """Return the last non-empty line of the log, which describes the error if a Python program failed."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line for line in reversed(lines) if line.strip()), "the agent said nothing")


def _greeting(process: ForkedAgent) -> bytes:
    return process.stdout.readline()


def _make(agent: AgentConfig, owner: str) -> ProcessMachine:
    del owner  # The agent's group identifies it and ends with it.
    return ProcessMachine(agent)


KIND = MachineKind(about="processes", make=_make)
