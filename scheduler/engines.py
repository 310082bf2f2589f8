"""The door to the engines of simulations: what an engine offers, the simulator of objects, and the registry.

An engine is a package of `scheduler.simulate` with a module `registration` that declares it as `ENGINE`. No other
module names the package. Without the package, or without the library that it needs, simulations run with objects.
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
    """The expected duration of the simulation under a policy, compared with other policies.

    A fast engine can simulate all policies but those of `LONG` effort. A policy of `MEDIUM` effort is offered
    many slots that it does not take. One of `ASKED` effort runs in Python. The effort of a user's code is `LONG`,
    since only a separate process loads it, which then may use a fast engine or not.
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
    """A way to run a simulation. All engines pass the same rows on.

    An engine has to define `name`, `why_not` and `run`. The other methods have a default.
    """

    name: str

    @property
    def least_tasks(self) -> int:
        """Return the least number of tasks of a simulation for which the engine is tried. By default 0."""
        return 0

    def why_not(self, setup: Setup, policy: Policy) -> str | None:
        """Return why the engine cannot simulate `setup` under `policy`, or None if no reason is known yet."""
        ...

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> str | None:
        """Run a `Simulation` that has not begun to its end, and return None.

        The simulation has the setup, the receiver of rows and the statistics. If the engine cannot run it, return
        the reason; the simulation is then at its start. Raises Stuck if the jobs cannot end.
        """
        ...

    def why_absent(self) -> str | None:
        """Return why the engine cannot run any simulation in this installation. By default None."""
        return None

    def is_ready(self) -> bool:
        """Return whether the engine can run at once, without a preparation. By default true."""
        return True

    def prepare(self, tasks: float, *, contention: bool) -> Chosen:
        """Return the engines for simulations of `tasks` tasks in turn, after the preparation that pays for them.

        It is only asked of an engine that is not ready. By default, nothing is prepared.
        """
        return Chosen()

    def effort(self, policy: Policy, *, contention: bool) -> Effort:
        """Return how long a simulation under the policy takes, compared with others. By default `SHORT`."""
        return Effort.SHORT

    def shared_tables(self, setup: Setup, storage: Any, jobs: Sequence[JobSpec]) -> Any:
        """Return what runs that differ only in the policy can share. By default None.

        `storage` has the placed inputs, and `jobs` are all jobs by submit time. The result becomes
        `Simulation.task_tables`.
        """
        return None

    def placer(self, loads: Any, seed: int) -> Placer | None:
        """Return an object that places many blocks fast. By default None: each file is placed alone.

        `loads` is the NameNode's index of the nodes' loads.
        """
        return None

    def numbers_below(self, most: int, seed: int, name: str, count: int) -> Sequence[int]:
        """Return `chance(seed, name, number).randrange(most)` for each number from 0 to `count` - 1.

        The result is empty, as by default, if the engine does not draw them faster.
        """
        return ()


class ObjectsEngine(Engine):
    """The simulator with Python objects, `Simulation.run`. It runs everything, and is always present."""

    name = "objects"

    def why_not(self, setup: Setup, policy: Policy) -> str | None:
        """Return None: each setup is supported."""
        return None

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> str | None:
        """Implement `Engine.run`."""
        simulation.run(on_progress)
        return None


OBJECTS = ObjectsEngine()


@dataclass(frozen=True, slots=True)
class Chosen:
    """The engines that the simulations of a command try in turn, before the objects' simulator.

    `later` is called after the simulations, and prepares an engine for later commands.
    """

    engines: tuple[Engine, ...] = ()
    later: Callable[[], None] | None = None

    def run(self, simulation: Any, on_progress: Callable[[Any], None] | None = None) -> None:
        """Run the simulation with the first engine that can. Raises Stuck if the jobs cannot end."""
        for engine in (*self.engines, OBJECTS):
            if engine.run(simulation, on_progress) is None:
                return

    def end(self) -> None:
        """Prepare the engine that the simulations did without, if any, for later commands."""
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
    """Return the engine whose fast services may be used now, else the objects' simulator, which has none."""
    fast = fast_engine()
    return fast if fast.is_ready() else OBJECTS
