"""Registers the compiled loop as an engine; nothing else outside names it. numba (`fast`) loads when it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from schedbed.scheduler.engines import Chosen, Effort, Engine, Placer
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.compiled import code_cache, covers
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.specs import JobSpec


@cache
def _is_installed() -> bool:
    """Return whether numba can be found, without loading it."""
    return code_cache.numba_version() is not None


class CompiledEngine(Engine):
    """The event loop compiled by numba. It is much faster than the objects, for the setups that `covers` accepts."""

    name = "compiled"

    @property
    def least_tasks(self) -> int:
        return _ahead().COMPILED_TASKS

    def why_absent(self) -> str | None:
        """Implement `Engine.why_absent`: numba is not installed."""
        return None if _is_installed() else "numba is not installed: pip install 'schedbed[fast]'"

    def why_not(self, setup: Setup, policy: Policy) -> str | None:
        """Implement `Engine.why_not`. Only `run` checks costs and inputs."""
        why = self.why_absent() or covers.why_not_setup(setup)
        return why or covers.why_not_policy(policy, contention=setup.contention)

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> str | None:
        """Implement `Engine.run`."""
        why = self.why_absent()
        if why is not None:
            return why
        from schedbed.scheduler.simulate.compiled import run_compiled

        return run_compiled.run(simulation, on_progress)

    def is_ready(self) -> bool:
        """Return whether numba is installed and the loop's code is cached."""
        return _is_installed() and code_cache.is_cached()

    def prepare(self, tasks: float, *, contention: bool) -> Chosen:
        """Compile now or later if `compile_ahead.pays`. Without numba, say once that it could be faster."""
        why = self.why_absent()
        if why is not None:
            _tell_absent(why)
            return Chosen()
        ahead = _ahead()
        if not ahead.pays(tasks, contention=contention):
            return Chosen(later=ahead.compile_later if code_cache.cache_folder() is not None else None)
        ahead.compile_now()
        return Chosen((self,))

    def effort(self, policy: Policy, *, contention: bool) -> Effort:
        """Implement `Engine.effort`."""
        if covers.why_not_policy(policy, contention=contention) is not None:
            return Effort.LONG
        if not covers.is_compiled(policy):
            return Effort.ASKED
        return Effort.SHORT if covers.compiled_axis(policy, "delay") is None else Effort.MEDIUM

    def shared_tables(self, setup: Setup, storage: Any, jobs: Sequence[JobSpec]) -> Any:
        """Return the loop's tables of tasks. Raises NotCovered."""
        from schedbed.scheduler.simulate.loading.task_tables import task_tables

        return task_tables(setup, storage, jobs)

    def placer(self, loads: Any, seed: int) -> Placer | None:
        from schedbed.scheduler.simulate.loading.task_tables import InputPlacer

        return InputPlacer(loads, seed)


@cache
def _tell_absent(why: str) -> None:
    _ahead().tell(f"simulations of {_ahead().COMPILED_TASKS:,} tasks or more would be faster, but {why}")


def _ahead() -> Any:
    return import_module("schedbed.scheduler.simulate.compiled.ahead.compile_ahead")


ENGINE = CompiledEngine()
