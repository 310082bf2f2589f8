"""Section 7.3: the CPU time that decisions of the policy ARIA take for 500 jobs on 66 nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import OURS, PAPER, grouped_bars
from schedbed.deploy.papers.verma2011.arrivals import TESTBED, RowsKept, under_aria, with_durations
from schedbed.deploy.papers.verma2011.w1_and_w2 import DueJob, workload
from schedbed.deploy.results.stats import mean_interval
from schedbed.deploy.simulated.simulated_runs import setup_of
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES, JOBS = 66, 500
ROUNDS = 3
"""Simulations of one round. Their median counts, since CPU time depends on other work of the host."""

TIMED = ("submit", "heartbeat", "tick")
"""The core's events in which jobs are submitted, slots are computed and tasks are assigned."""


def measure(bench: Bench) -> Measured:
    """Measure the CPU time in which the policy ARIA schedules one round of tasks for jobs of the workload W1.

    In a round, one heartbeat of every node is answered. Each repeat draws other jobs.
    """
    said = paper_file.load("verma2011").experiments["table2"].values
    rounds: list[float] = []
    for repeat in range(bench.repeats):
        seed = chance(bench.seed, "overhead", repeat).getrandbits(62)
        jobs = workload("W1", said, JOBS, 0.95, seed)
        bench.simulations += ROUNDS
        setup = setup_for(jobs, NODES, seed)
        rounds.append(median(round_s(setup)[0] for _ in range(ROUNDS)))
    return Measured(values={"round_s": rounds}, series={"rounds": rounds})


def setup_for(jobs: Sequence[DueJob], nodes: int, seed: int) -> Setup:
    """Return the setup of a simulation in which these jobs are submitted at once on `nodes` testbed nodes."""
    resolved = with_durations(under_aria(jobs, seed, TESTBED | {"nodes": nodes}, 1.0), jobs)
    setup = setup_of(resolved, resolved.policies[0], 0, costs_of(resolved), Latencies())
    return replace(setup, heartbeat_rows=False, skip_rows=False)


def round_s(setup: Setup) -> tuple[float, int]:
    """Return the CPU time in s of one round of scheduling, and the number of tasks assigned in the round.

    In a round all jobs are submitted to an empty cluster, and their slots are computed. One heartbeat of
    every node is then answered with tasks for all slots of the node.
    """
    simulation = _OneRound(setup)
    while simulation.now_s <= setup.cluster.heartbeat_s and simulation.step():
        pass
    return simulation.spent_s, simulation.statistics.launches


class _OneRound(Simulation):
    """A simulation that measures the CPU time in which the scheduler core processes its events.

    The measured events are submissions of jobs, heartbeats of nodes and ticks of the core's timer.
    """

    def __init__(self, setup: Setup) -> None:
        self.spent_s = 0.0
        super().__init__(setup, RowsKept())
        kinds = self.master.kinds
        for kind in TIMED:
            kinds[kind] = self._timed(kinds[kind])

    def _timed(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began_s = time.process_time()
            answer = apply(*arguments)
            self.spent_s += time.process_time() - began_s
            return answer

        return timed


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the CPU time of a round next to the paper's limit of one second."""
    rounds = measured.series["rounds"]
    ax = figure.subplots()
    bars = [("paper: less than", PAPER, [said["round_s"].number]), ("ours", OURS, [fmean(rounds)])]
    grouped_bars(ax, [f"{JOBS} jobs on {NODES} nodes"], bars, [[], [mean_interval(rounds)]])
    ax.set(ylabel="CPU time of a round [s]", ylim=(0, None))


EXPERIMENT = Experiment(name="overhead", measure=measure, draw=draw, takes_s={"sim": 45}, repeats=5)
