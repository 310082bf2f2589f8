"""Compile the simulator's fast loop before runs need it, or in the background after runs that did without it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum

from schedbed.cluster.machines.host_abilities import memory_left_bytes
from schedbed.cluster.own_python import module_command, module_environment
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.scheduler.simulate.compiled.code_cache import cache_folder, is_cached, lock_file
from schedbed.scheduler.simulate.compiled.covers import compiled_axis, is_compiled, why_not_policy

COMPILED_TASKS = 20_000
"""The least number of tasks for which the compiled loop is used, since loading it takes half a second."""
COMPILE_S, COMPILE_BYTES = 60.0, 2 << 30
"""The time and memory that compilation takes, roughly."""
TASKS_PER_S, CONTENDED_TASKS_PER_S = 12_000, 1_200
"""The number of tasks that are simulated per second without the compiled loop, roughly."""
COMPILER = "schedbed.deploy.simulated.compile_once"


class Effort(IntEnum):
    """The expected duration of the simulation under a policy, compared with other policies.

    The compiled loop can simulate all policies but those of `LONG` effort. A policy of `MEDIUM` effort is offered
    many slots that it does not take. One of `ASKED` effort runs in Python. The effort of a user's code is `LONG`,
    since only a separate process loads it, which then may use the loop or not.
    """

    SHORT = 0
    MEDIUM = 1
    ASKED = 2
    LONG = 3


@dataclass(slots=True)
class LoopChoice:
    """The answer to the question whether the simulations of a command try the compiled loop.

    `later`: they do not because it is not compiled yet, and it should be compiled after them.
    """

    tries: bool
    later: bool = False

    def end(self) -> None:
        """Start to compile the loop in a process in the background, if the simulations could have used it.

        A line on the standard error tells so. Nothing is started if memory is short, or if another process
        compiles the loop.
        """
        if self.later and memory_left_bytes() > 2 * COMPILE_BYTES and _is_free():
            _tell(
                f"simulations of {COMPILED_TASKS:,} tasks or more will be faster from now on: their loop is "
                "compiled in the background, once, in about a minute"
            )
            process = subprocess.Popen(
                module_command(COMPILER),
                env=module_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            os.setpriority(os.PRIO_PROCESS, process.pid, 19)


def choose_loop(scenario: ResolvedScenario, at_once: int) -> LoopChoice:
    """Return whether the scenario's simulations, of which `at_once` run at a time, try the compiled loop.

    If the loop is not compiled yet and the simulations would take longer without it than compilation takes,
    it is compiled first, and a line on the standard error tells so.
    """
    tasks = scenario.task_count
    if scenario.simulate.engine != "auto" or tasks < COMPILED_TASKS:
        return LoopChoice(False)
    if is_cached():
        return LoopChoice(True)
    runs = scenario.repeats * sum(_may_use(choice, scenario) for choice in scenario.policies)
    if not runs or scenario.faults or not scenario.framework.is_none:
        return LoopChoice(False)
    rate = CONTENDED_TASKS_PER_S if scenario.simulate.contention else TASKS_PER_S
    if runs * tasks / rate / at_once < COMPILE_S:
        return LoopChoice(False, later=cache_folder() is not None)
    if cache_folder() is not None:
        _tell("compiling the loop of large simulations, once, in about a minute")
        subprocess.run(
            module_command(COMPILER), env=module_environment(), cwd="/", stdin=subprocess.DEVNULL, check=False
        )
    return LoopChoice(True)


def _may_use(choice: PolicyChoice, scenario: ResolvedScenario) -> bool:
    """Return whether the compiled loop may simulate the policy, as far as is known without a user's code."""
    if choice.is_own:
        return scenario.speculation == "none"
    return effort_of(choice, scenario) < Effort.LONG


def effort_of(choice: PolicyChoice, scenario: ResolvedScenario) -> Effort:
    """Return how long a simulation takes under a policy, compared with other policies of the scenario."""
    if choice.is_own:
        return Effort.LONG
    policy = scenario.new_policy(choice)
    if why_not_policy(policy, contention=scenario.simulate.contention) is not None:
        return Effort.LONG
    if not is_compiled(policy):
        return Effort.ASKED
    return Effort.SHORT if compiled_axis(policy, "delay") is None else Effort.MEDIUM


def _is_free() -> bool:
    """Return whether no other process compiles the loop now."""
    with lock_file() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _tell(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
