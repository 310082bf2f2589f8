"""A machine made of processes on this host: an agent in a separate session, its zygote and its attempts.

The zygote is the process that forks the attempts.
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
from schedbed.cluster.machines.machine import Hello, KernelTotals, MachineFailed, MachineKind
from schedbed.cluster.spec import NodeSpec
from schedbed.tasks.errors import BadInput

START_S = 60.0
STOP_S = 8.0
EXIT_BAD_INPUT = 2


class ProcessMachine:
    """One incarnation of a node, as processes on this host. After `stop` or `kill`, only `root` is left."""

    def __init__(self, agent: AgentConfig) -> None:
        self._config = replace(agent, root=agent.root.resolve())
        self._process: ForkedAgent | None = None
        self._group = ""
        self._counters: GroupCounters | None = None  # Set while control groups exist.

    @property
    def node(self) -> NodeSpec:
        """Return the specification of the node."""
        return self._config.node

    async def start(self) -> Hello:
        """Start the agent and wait until it serves. Raises BadInput (impossible limits) or MachineFailed."""
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
        return Hello(url=said["url"], pid=said["pid"], limits=said["limits"])

    async def stop(self) -> None:
        """Close the agent's standard input, which ends all processes. Kill processes left after `STOP_S`."""
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

        The processes are found in their control groups, which are then removed, or among the agent's
        descendants.
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
        await asyncio.to_thread(self._bury, process)

    async def freeze(self) -> None:
        """Send SIGSTOP to all processes of the machine."""
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        """Send SIGCONT to all processes of the machine."""
        self._signal_all(signal.SIGCONT)

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Do nothing: the agent applies all limits."""

    async def dispose(self) -> None:
        """Do nothing: the node's folder is removed with the run's folder."""

    def totals(self) -> KernelTotals:
        """Return the counters of the node's control groups: CPU and memory; None without control groups."""
        counters = self._counters
        if counters is None:
            return KernelTotals()
        return KernelTotals(cpu_s=counters.cpu_s(), memory_bytes=counters.memory_bytes())

    def is_alive(self) -> bool:
        """Return whether the agent runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def _log(self) -> Path:
        return self._config.root / "agent.log"

    def _find_counters(self, limits: Mapping[str, str]) -> GroupCounters | None:
        """Return the counters of the control groups that the agent created; None if there are no groups."""
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

    def _bury(self, process: ForkedAgent) -> None:
        """Wait for the end of agent and zygote, then remove their control groups.

        Both processes hold the pipe of standard output open.
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

        The agent gets the signal first, so that it does not see its children stopped.
        """
        if not self.is_alive() or self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            agent = psutil.Process(self._process.pid)
            for process in (agent, *agent.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def _end_all_below(pid: int) -> None:
    """Kill a process and all its descendants. They are stopped first, so that no new processes appear."""
    tree = ProcessTree(pid)
    tree.signal(signal.SIGSTOP)
    tree.signal(signal.SIGKILL)


def _last_line(log: Path) -> str:
    """Return the last line of the log that is not empty. A Python error is described on that line."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line for line in reversed(lines) if line.strip()), "the agent said nothing")


def _greeting(process: ForkedAgent) -> bytes:
    return process.stdout.readline()


def _make(agent: AgentConfig, owner: str) -> ProcessMachine:
    del owner  # The agent's group identifies it and ends with it.
    return ProcessMachine(agent)


KIND = MachineKind(about="processes", make=_make)
