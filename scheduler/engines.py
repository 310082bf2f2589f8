"""The door to the engines of simulations: what one offers, the simulator of objects, and the registry.

An engine is a package of `scheduler.simulate` whose `registration` declares it as `ENGINE`. Nothing else
names it; without it or its library, simulations run with objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Protocol

import numpy.typing as npt

from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.specs import JobSpec, NodeId

FOLDER = "schedbed.scheduler.simulate"
Values = npt.NDArray[Any]
"""A column of numbers as a numpy array."""


class Effort(IntEnum):
    """The expected duration of a simulation by policy. A fast engine takes all but `LONG`.

    `MEDIUM`: many slots are offered in vain. `ASKED`: the policy runs in Python. `LONG`: a user's code, which
    only a separate process loads, with a fast engine or not.
    """

    SHORT = 0
    MEDIUM = 1
    ASKED = 2
    LONG = 3


class Placer(Protocol):
    """The choice of nodes for many blocks at a time. The results equal those of `cluster.blocks.placement`."""

    names: list[NodeId]

    def takes(self, count: int, size_bytes: int) -> bool:
        """Return whether nodes can be chosen for `count` replicas of blocks of `size_bytes` bytes in all."""
        ...

    def numbers_of(self, nodes: Sequence[NodeId]) -> Values:
        """Return the places of the nodes in `names`."""
        ...

    def place_inputs(self, blocks: Sequence[str], ends: Values, lengths: Values, count: int) -> Values:
        """Return the `count` nodes of each block of new input files, by their places in `names`."""
        ...

    def place_outputs(self, blocks: Iterable[str], writers: Values, lengths: Values, count: int) -> Values:
        """Return the `count` nodes of each block of new output files, by their places in `names`."""
        ...

    def put_back(self) -> None:
        """Store the loads of the nodes in the NameNode's index again."""
        ...


class Engine(Protocol):
    """A way to run a simulation, with the same rows from all. `name`, `why_not` and `run` have no default."""

    name: str

    @property
    def least_tasks(self) -> int:
        """Return the least number of tasks for which the engine is tried."""
        return 0

    def why_not(self, setup: Setup, policy: Policy) -> str | None:
        """Return why the engine cannot simulate this, or None if no reason is known yet."""
        ...

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> str | None:
        """Run a new `Simulation` to its end and return None, or the reason why not, with it still at its
        start.

        Raises Stuck if the jobs cannot end.
        """
        ...

    def why_absent(self) -> str | None:
        """Return why the engine cannot run anything in this installation."""
        return None

    def is_ready(self) -> bool:
        """Return whether the engine needs no preparation."""
        return True

    def prepare(self, tasks: float, *, contention: bool) -> Chosen:
        """Return the engines to try, after a preparation that pays for `tasks`. Asked only if not ready."""
        return Chosen()

    def effort(self, policy: Policy, *, contention: bool) -> Effort:
        """Return the duration of a simulation under the policy, compared with others."""
        return Effort.SHORT

    def shared_tables(self, setup: Setup, storage: Any, jobs: Sequence[JobSpec]) -> Any:
        """Return what runs that differ only in the policy can share, as `Simulation.task_tables`.

        `storage` has the placed inputs, and `jobs` are all jobs by submit time.
        """
        return None

    def placer(self, loads: Any, seed: int) -> Placer | None:
        """Return an object that places many blocks fast. None: each file is placed alone."""
        return None


class ObjectsEngine(Engine):
    """The simulator with Python objects, `Simulation.run`. It runs everything, and is always present."""

    name = "objects"

    def why_not(self, setup: Setup, policy: Policy) -> str | None:
        """Implement `Engine.why_not`."""
        return None

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> str | None:
        """Implement `Engine.run`."""
        simulation.run(on_progress)
        return None


OBJECTS = ObjectsEngine()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The engines to try before the objects' simulator. `later` prepares one for later commands."""

    engines: tuple[Engine, ...] = ()
    later: Callable[[], None] | None = None

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> None:
        """Run the simulation with the first engine that can. Raises Stuck if the jobs cannot end."""
        for engine in (*self.engines, OBJECTS):
            if engine.run(simulation, on_progress) is None:
                return

    def end(self) -> None:
        """Prepare the engine that the simulations did without, for later commands."""
        if self.later is not None:
            self.later()


@cache
def fast_engine() -> Engine:
    """Return the registered engine, or the simulator of objects if no other is registered."""
    for found in iter_modules(import_module(FOLDER).__path__):
        if found.ispkg and find_spec(f"{FOLDER}.{found.name}.registration") is not None:
            return import_module(f"{FOLDER}.{found.name}.registration").ENGINE
    return OBJECTS


def ready_engine() -> Engine:
    """Return a fast engine that is ready, or the objects' simulator."""
    fast = fast_engine()
    return fast if fast.is_ready() else OBJECTS
