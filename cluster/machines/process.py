"""A machine made of processes of this host: an agent in a session of its own, its zygote and its attempts."""

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
    """An incarnation of a node on this host. After `stop` or `kill` only `root` is left."""

    def __init__(self, agent: AgentConfig) -> None:
        self._config = replace(agent, root=agent.root.resolve())
        self._process: ForkedAgent | None = None
        self._group = ""
        self._counters: GroupCounters | None = None  # while the kernel counts for this life

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
        """Close the agent's standard input, which ends it with all its processes. Kill it if it does not end."""
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
        """Kill (SIGKILL) agent, zygote and all processes of attempts, whatever their session or user.

        They are found in their control groups, which are then removed, or below the agent.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if self._counters is None and process.poll() is None:
            await asyncio.to_thread(_end_all_below, process.pid)
        # The group outlives its leader while the zygote is in it, so the id cannot be anyone else's before
        # the leader has been waited for.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._bury, process)

    async def freeze(self) -> None:
        """Send SIGSTOP to everything on the machine."""
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        """Send SIGCONT to everything on the machine."""
        self._signal_all(signal.SIGCONT)

    async def set_rates(self, cpu: float, disk: float, network: float) -> None:
        """Do nothing: the agent applies all limits."""

    async def dispose(self) -> None:
        """Do nothing: the folder is removed with the run's."""

    def totals(self) -> KernelTotals:
        """Implement `Machine`."""
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
        """Return the counters of the groups that the agent made; None if it made none."""
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
        with contextlib.suppress(OSError):  # an agent that has died already is seen by its silence
            process.stdin.write(self._config.to_lines().encode())
            process.stdin.flush()
        return process

    def _no_answer(self) -> MachineFailed:
        return MachineFailed(f"{self._config.node.node}: no answer ({_last_line(self._log)})")

    def _bury(self, process: ForkedAgent) -> None:
        """Wait for agent and zygote (both hold the pipe of standard output), then remove what they left."""
        with process.stdout, contextlib.suppress(OSError):
            while process.stdout.read(65536):
                pass
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        if self._config.limits in ("auto", "cgroup"):
            remove_node(self._config.run_id, self._config.node.node, self._group)

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all processes. The agent comes first, so that it does not see its children stopped."""
        if not self.is_alive() or self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            agent = psutil.Process(self._process.pid)
            for process in (agent, *agent.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


def _end_all_below(pid: int) -> None:
    """Stop a process and all its descendants, so that no more are made, and kill them."""
    tree = ProcessTree(pid)
    tree.signal(signal.SIGSTOP)
    tree.signal(signal.SIGKILL)


def _last_line(log: Path) -> str:
    """Return the last line of the log: a Python error names the module and the cause there."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line for line in reversed(lines) if line.strip()), "the agent said nothing")


def _greeting(process: ForkedAgent) -> bytes:
    return process.stdout.readline()


def _make(agent: AgentConfig, owner: str) -> ProcessMachine:
    del owner  # its group names the agent, and dies with it
    return ProcessMachine(agent)


KIND = MachineKind(about="processes", make=_make)
