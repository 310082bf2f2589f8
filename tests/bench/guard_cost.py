"""Measure what the guard of users' policies costs: the same policy with and without it.

    python -m tests.bench.guard_cost [--repeats 5] [--nodes 200] [--tasks 20000] [--only NAME] [--out FILE]

The simulator's loop of objects (not the compiled one) runs the policy in turns with the core's own objects
and behind the guard. All heartbeats are simulated. Each simulation runs in a forked process that records
calls and refuses harmful operations, as the process of a user's policy does. Measured is CPU time, without
the placing of inputs.
"""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from schedbed.policy import Composed, Proposal, TaskKind, shipped_axis
from schedbed.scheduler.guard.call_record import CALL_RECORD, SIZE
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.guard.refused_acts import refuse_harm
from schedbed.scheduler.simulate.simulation import Simulation
from tests.bench.figures import Figure, parser, publish
from tests.bench.sim_load import Columns, make_setup

TARGET = 1.1


class FirstCome:
    """The example policy of docs/your-policy.md: the first job that has a task, with local maps first."""

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: propose a task of the first job that has one."""
        for job in view.jobs.values():
            task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
            if task is not None:
                return Proposal(task, "first come")
        return None


class ShortestFirst:
    """The example policy of the README: the job with the fewest unstarted tasks."""

    def decide(self, view: Any, node: Any, kind: TaskKind) -> Proposal | None:
        """Implement `Policy.decide`: propose a task of the job with the fewest unstarted tasks."""
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        job = min(ready, key=lambda job: (job.stage(kind).unstarted, job.serial), default=None)
        if job is None:
            return None
        task = job.any_reduce() if kind is TaskKind.REDUCE else job.local_map(node.node) or job.any_map()
        return Proposal(task, "nearest task of the shortest job")


class PoorestUser:
    """The order axis of examples/policies/axes.py: jobs of users with few running tasks first."""

    def jobs(self, view: Any, node: Any, kind: TaskKind) -> Iterable[Any]:
        """Implement `Order.jobs`: return jobs that have a task to start, those of users with few running
        tasks first.
        """
        ready = [job for job in view.jobs.values() if job.stage(kind).ready]
        return sorted(ready, key=lambda job: (job.stage(kind).user.running, job.serial))


def poorest() -> Any:
    """Return the policy of examples/policies/axes.py: the order `PoorestUser` with delay scheduling."""
    return Composed(PoorestUser(), shipped_axis("locality", "delay"), shipped_axis("admission", "slots"))


def fifo() -> Any:
    """Return FIFO, composed from shipped axes as a user could do it."""
    return Composed(
        shipped_axis("order", "fifo"), shipped_axis("locality", "greedy"), shipped_axis("admission", "slots")
    )


def fair() -> Any:
    """Return Fair with delay scheduling, composed from shipped axes as a user could do it."""
    return Composed(
        shipped_axis("order", "fair"), shipped_axis("locality", "delay"), shipped_axis("admission", "slots")
    )


MADE: Mapping[str, Callable[[], Any]] = {
    "first come": FirstCome,
    "shortest first": ShortestFirst,
    "poorest user": poorest,
    "fifo": fifo,
    "fair and delay": fair,
}


def simulate(make: Callable[[], Any], nodes: int, tasks: int, *, behind: bool) -> float:
    """Return the CPU seconds of one simulation with the policy that `make` builds, with `behind` inside the
    guard.
    """
    own = type(make())
    setup = replace(
        make_setup("fifo", nodes, tasks, fluid=False, inputs=True, process_all_heartbeats=True),
        policy=(lambda: guarded(make, own)) if behind else make,
    )
    simulation = Simulation(setup, Columns())
    gc.collect()
    gc.disable()
    began_s = time.process_time()
    simulation.run()
    return time.process_time() - began_s


def _answer(pipe: Connection, name: str, nodes: int, tasks: int, behind: bool) -> None:
    CALL_RECORD.share(mmap.mmap(-1, SIZE))
    refuse_harm()
    pipe.send(simulate(MADE[name], nodes, tasks, behind=behind))


def in_a_fork(name: str, nodes: int, tasks: int, *, behind: bool) -> float:
    """Simulate the policy `name` of `MADE` in a forked process. Return the CPU seconds."""
    there, here = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_answer, args=(here, name, nodes, tasks, behind)
    )
    process.start()
    here.close()
    taken_s = there.recv()
    process.join()
    return taken_s


def main() -> int:
    """Measure each policy. Return 1 if the guard costs more than the target."""
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--tasks", type=int, default=20_000)
    options.add_argument("--only", default="")
    asked = options.parse_args()
    figures = []
    for name in MADE:
        if asked.only not in name:
            continue
        ratios = []
        for _ in range(asked.repeats):
            direct, behind = (
                in_a_fork(name, asked.nodes, asked.tasks, behind=each) for each in (False, True)
            )
            ratios.append(behind / direct)
            print(f"{name}: {direct:.2f} s of CPU, behind the guard {behind:.2f} s")
        figures.append(Figure(name=f"guard, {name}", values=ratios, unit="x", high=TARGET))
    publish(
        "guard_cost", "CPU time behind the guard, by that with the core's own objects", figures, asked.out
    )
    return int(any(figure.verdict == "missed" for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
