"""Jobs that are submitted when enough slots are free, under ARIA: Tables 2 to 4, Figure 7 and section 7.3.

A job arrives when the cluster's load with this job is below a threshold. The load is the sum of the shares of
map and reduce slots in use.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench, FinishedRun, lean_setup
from schedbed.deploy.papers.experiment import Experiment, Measured, Values, by_repeat
from schedbed.deploy.papers.figures import Panel, legend, panels
from schedbed.deploy.papers.verdict import Exact
from schedbed.deploy.papers.verma2011.arrivals import (
    APPS,
    MAP_SLOTS,
    NODES,
    REDUCE_SLOTS,
    TESTBED,
    WORKLOADS,
    DueJob,
    Outcome,
    RowsKept,
    planned_job,
    seeds_of,
    simulate_jobs,
    table2,
    testbed_job,
    under_aria,
    with_durations,
    with_profile,
    workload,
    yahoo_job,
)
from schedbed.deploy.papers.verma2011.slo_slots import profile_of
from schedbed.deploy.results.metrics import RunTables, deadlines
from schedbed.deploy.results.plots import OKABE
from schedbed.deploy.scenario.resolved import ResolvedScenario, SimulateChoice
from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Cost
from schedbed.tasks.workloads.drawn import threshold_arrivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Table 2: the numbers and durations of tasks of the jobs that are drawn for the workloads W1 and W2.

DRAWN = 400  # jobs of each workload in a repeat
REDRAWN_NOTE = (
    "W2's numbers of tasks are normal distributions that are often negative; those are drawn again, so that "
    "means are larger and deviations smaller than printed."
)


def drawn_jobs(bench: Bench) -> Measured:
    """Draw many jobs of both workloads, and measure their numbers of tasks and the durations of tasks."""
    sizes: dict[str, set[int]] = defaultdict(set)
    found = by_repeat(_testbed(bench.seed, repeat, sizes) for repeat in range(bench.repeats))
    counts = {f"{app}_maps": Exact(value=_like(app, sizes[app])) for app in APPS}
    return Measured(values={**counts, **found, **_yahoo(bench)}, notes=[REDRAWN_NOTE])


def _testbed(seed: int, repeat: int, sizes: dict[str, set[int]]) -> Mapping[str, float]:
    """Return the mean durations of tasks of W1 in a repeat, and add the drawn numbers of maps to `sizes`."""
    means: dict[str, list[float]] = defaultdict(list)
    for number in range(DRAWN):
        app, maps_s, reduces_s = testbed_job(chance(seed, "W1", repeat, number), table2())
        sizes[app].add(len(maps_s))
        means[f"{app}_map_s"].append(fmean(maps_s))
        means[f"{app}_reduce_s"].append(fmean(reduces_s))
    return {key: fmean(each) for key, each in means.items()}


def _like(app: str, drawn: set[int]) -> tuple[float, ...]:
    """Return the numbers in the set `drawn`, ordered such that the numbers that the paper prints come first.

    `drawn` has the different numbers of maps of the drawn jobs of the application `app`. The printed numbers
    are in the paper's order, and all others in ascending order.
    """
    order = table2()[f"{app}_maps"].numbers
    return (*(size for size in order if size in drawn), *sorted(drawn.difference(order)))


def _yahoo(bench: Bench) -> dict[str, Exact]:
    """Return means and standard deviations of W2's numbers of tasks and durations of tasks, over all repeats.

    W2 is the workload with Yahoo!'s distributions.
    """
    jobs = [yahoo_job(chance(bench.seed, "W2", n), table2()) for n in range(DRAWN * bench.repeats)]
    drawn: Mapping[str, list[float]] = {
        "yahoo_maps": [len(maps_s) for _, maps_s, _ in jobs],
        "yahoo_reduces": [len(reduces_s) for _, _, reduces_s in jobs],
        "yahoo_map_s": [each for _, maps_s, _ in jobs for each in maps_s],
        "yahoo_reduce_s": [each for _, _, reduces_s in jobs for each in reduces_s],
    }
    return {key: Exact(value=(fmean(each), pstdev(each))) for key, each in drawn.items()}


DRAW_TABLE2 = panels(
    *(
        Panel({app: f"{app}_{kind}_s" for app in APPS}, f"mean {kind} task [s]", tilted=True)
        for kind in ("map", "reduce")
    )
)


# Table 3: the late jobs and the load in simulations of the workloads W1 and W2.

THRESHOLDS = (105, 100, 95, 90, 85)
COLUMNS = {"late": "late jobs of 100", "load": "average load [%]"}
JOBS, FULL_JOBS, FULL_RUNS = 50, 100, 100
LEAST_REPEATS = 3  # for each seed; a repeat takes half a minute


def table3(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure the late jobs and the load of both workloads for each load threshold.

    Each repeat draws other jobs, `jobs` in number. They are the same for all thresholds, except that a
    deadline for which the job could never start below the threshold is drawn again.
    """
    jobs = jobs or (FULL_JOBS if bench.full else JOBS)
    asked = paper_file.load("verma2011").experiments["table3"].values
    values = by_repeat(
        {
            key: value
            for name in WORKLOADS
            for threshold in THRESHOLDS
            for column, value in columns(bench, name, threshold, jobs, seed).items()
            if (key := f"{name}_{threshold}_{column}") in asked
        }
        for seed in seeds_of(bench, "table3")
    )
    note = (
        "The load is the sum of the shares of map and reduce slots in use (a full cluster is 200%); the average "
        "load is the share of all slots. Spare slots stay free, as in Algorithm 1. A deadline whose minimum pair "
        "alone is above the threshold is drawn again: such a job could never be spawned."
    )
    return Measured(values=values, notes=[note])


def columns(bench: Bench, name: str, percent: int, jobs: int, seed: int) -> Mapping[str, float]:
    """Simulate `jobs` random jobs of the workload `name`, and return the columns of Table 3.

    `percent` is the load threshold. `late` is the percentage of jobs that ended after their deadlines.
    `exceeded` is the sum over late jobs of the delay in percent of the deadline, per 100 jobs. `load` is the
    share of busy slots in percent.
    """
    threshold = percent / 100
    drawn = workload(name, jobs, threshold, seed)
    count_drawn(bench, [drawn])
    outcome = simulate_jobs(drawn, threshold, seed)
    return {
        "late": 100 * outcome.late / jobs,
        "exceeded": 100 * outcome.exceeded * 100 / jobs,
        "load": 100 * outcome.load,
    }


def count_drawn(bench: Bench, drawn: Sequence[Sequence[DueJob]], nodes: int = NODES) -> None:
    """Count simulations of these jobs, and their sizes. The slots of `nodes` nodes may be on fewer, larger ones."""
    bench.simulations += len(drawn)
    for jobs in drawn:
        tasks = sum(len(job.maps_s) + len(job.reduces_s) for job in jobs)
        bench.sizes.append({"nodes": nodes, "jobs": len(jobs), "tasks": tasks})


# Figure 7: the running maps and reduces over time while jobs of the workload W2 (Yahoo!) arrive.

SHOWN_THRESHOLDS = (95, 105)
SHOWN_JOBS = 40
POINTS = 600  # points in time in the figure


def fig7(bench: Bench, jobs: int | None = None) -> Measured:
    """Measure the mean and the largest share of busy slots for each load threshold.

    A job is submitted when the load stays below the threshold. Each repeat draws other jobs, `jobs` in
    number. The figure shows the first repeat.
    """
    jobs = jobs or (FULL_JOBS if bench.full else SHOWN_JOBS)
    found: dict[str, list[float]] = {}
    series: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for threshold in SHOWN_THRESHOLDS:
        seeds = seeds_of(bench, "fig7")
        drawn = [workload("W2", jobs, threshold / 100, seed) for seed in seeds]
        count_drawn(bench, drawn)
        outcomes = [
            simulate_jobs(mine, threshold / 100, seed) for mine, seed in zip(drawn, seeds, strict=True)
        ]
        shares = [running(outcome) for outcome in outcomes]
        series[str(threshold)] = shares[0]
        peaks = [100 * float(each.max()) for _, each in shares]
        averages = [100 * outcome.load for outcome in outcomes]
        found[f"peak_{threshold}"], found[f"average_{threshold}"] = peaks, averages
        found[f"below_{threshold}"] = [low / high for low, high in zip(averages, peaks, strict=True)]
    return Measured(values=found, series=series)


def running(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Return equally spaced times in s, and the shares of map slots and reduce slots in use at these times.

    The times are between the first submission and the last end of a job.
    """
    times_s = np.linspace(min(job[0] for job in outcome.jobs), max(job[1] for job in outcome.jobs), POINTS)
    shares = []
    for kind, slots in (("map", MAP_SLOTS), ("reduce", REDUCE_SLOTS)):
        began, ended = (np.sort(each) for each in np.array(outcome.attempts[kind]).T)
        now = np.searchsorted(began, times_s, side="right") - np.searchsorted(ended, times_s, side="right")
        shares.append(now / slots)
    return times_s, np.array(shares)


def draw_fig7(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the shares of map slots and reduce slots in use over time, with one row per load threshold."""
    axes = figure.subplots(len(measured.series), 1, sharex=True)
    for ax, (threshold, (times_s, shares)) in zip(axes, measured.series.items(), strict=True):
        kinds = ((f"map slots, threshold {threshold}%", "-"), ("reduce slots", "--"))
        for (label, dash), share, shade in zip(kinds, shares, OKABE, strict=False):
            ax.plot(times_s / 60, 100 * share, dash, color=shade, linewidth=0.8, label=label)
        ax.set(ylabel="in use [%]", ylim=(0, 103), xlim=(0, None))
        legend(ax)
    axes[-1].set_xlabel("time [min]")


# Table 4: the late jobs and the load in live runs of the workload W1.

LIVE_THRESHOLDS = (105, 95)
TABLE4_JOBS, LIVE_JOBS = 15, 6
LIVE, LIVE_SCALE = 16, 0.03
"""The divisor of nodes and tasks, and the factor of all times, when the experiment is live."""


def table4(bench: Bench) -> Measured:
    """Measure the late jobs and the load of the workload W1 for each load threshold.

    A job is submitted when the load stays below the threshold. Each repeat draws other jobs, and first runs each of
    them alone, for its profile.
    """
    found: dict[str, list[float]] = {"accuracy": []}
    for threshold in LIVE_THRESHOLDS if bench.live else THRESHOLDS:
        runs: list[RunTables] = []
        for number, seed in enumerate(seeds_of(bench, "table4"), 1):
            jobs = workload("W1", LIVE_JOBS if bench.live else TABLE4_JOBS, threshold / 100, seed)
            # A threshold changes deadlines at most, so the jobs alone are the same.
            asked = alone_on_testbed(jobs, seed, live=bench.live)
            alone = bench.run(f"table4-alone-{number}", asked, repeats=1)
            jobs = profiled(jobs, alone)
            plan = on_testbed(jobs, threshold / 100, seed, live=bench.live)
            finished = bench.run(f"table4-{threshold}-{number}", plan, repeats=1)
            runs.append(finished.of(finished.policies[0]))
        late = [deadlines(run.jobs, run.end_s) for run in runs]
        found[f"late_{threshold}"] = [100 * each["late"] / each["jobs"] for each in late]
        found[f"exceeded_{threshold}"] = [100 * each["exceeded"] * 100 / each["jobs"] for each in late]
        found[f"load_{threshold}"] = [100 * _load(run) for run in runs]
        found["accuracy"] += [_accuracy(run) for run in runs]
    return Measured(values=found)


def on_testbed(jobs: Sequence[DueJob], threshold: float, seed: int, *, live: bool) -> ResolvedScenario:
    """Return a scenario of the jobs under the policy ARIA, with tasks that use only CPU.

    Each job is submitted as soon as the load stays at most `threshold`. The load is estimated before the run:
    a job is assumed to hold the slots that it needs from its submission to its deadline. A live scenario has
    a 16th of the tasks, and its scale shortens all times.
    """
    submits_s = threshold_arrivals([(job.load, job.deadline_s) for job in jobs], threshold)
    return _on_testbed(jobs, submits_s, seed, "none", live)


def alone_on_testbed(jobs: Sequence[DueJob], seed: int, *, live: bool) -> ResolvedScenario:
    """Return the scenario of `on_testbed` in which each job runs alone on all slots, after the one before."""
    plan = _on_testbed(jobs, [0.0] * len(jobs), seed, "all", live)
    before = [None, *(job.job for job in plan.jobs)]
    return replace(
        plan, jobs=tuple(replace(job, after=name) for job, name in zip(plan.jobs, before, strict=False))
    )


def profiled(jobs: Sequence[DueJob], alone: FinishedRun) -> list[DueJob]:
    """Return the jobs with the profiles that `alone` measured, where job number n is `job_000n`."""
    run = alone.of(alone.policies[0])
    return [
        with_profile(job, profile_of(run, f"job_{number:04d}").at_scale(1 / alone.scale))
        for number, job in enumerate(jobs, 1)
    ]


def _on_testbed(
    jobs: Sequence[DueJob], submits_s: Sequence[float], seed: int, spare: str, live: bool
) -> ResolvedScenario:
    """Return a scenario with these submit times before the scale."""
    cluster, scale, size = TESTBED, 1.0, 1
    if live:
        node = TESTBED["node"] | {"core_speed": 0.06, "memory": "512MiB"}
        cluster = TESTBED | {"nodes": TESTBED["nodes"] // LIVE, "heartbeat": "100ms", "node": node}
        scale, size = LIVE_SCALE, LIVE
    bare = under_aria(jobs, seed, cluster, scale, spare=spare)
    (model,) = bare.jobs
    planned = []
    for number, (job, submit_s) in enumerate(zip(jobs, submits_s, strict=True), 1):
        fewer = replace(job, maps_s=job.maps_s[::size], reduces_s=job.reduces_s[::size])
        spec = planned_job(model, number, fewer, submit_s)
        assert spec.deadline_s is not None
        planned.append(
            replace(
                spec,
                submit_s=submit_s * scale,
                deadline_s=spec.deadline_s * scale,
                map_costs=tuple(Cost(cpu_s=each * scale) for each in fewer.maps_s),
                reduce_costs=tuple(Cost(cpu_s=each * scale) for each in fewer.reduces_s),
            )
        )
    # Simulated tasks do not contend: each slot has a core, and tasks use only CPU.
    return replace(bare, jobs=tuple(planned), simulate=SimulateChoice(contention=False))


def _load(run: RunTables) -> float:
    """Return the mean share of slots that are in use between the first submission and the last job end."""
    span_s = float(run.jobs["finish"].max() - run.jobs["submit"].min())
    return float((run.attempts["end"] - run.attempts["assigned"]).sum()) / (span_s * run.slots)


def _accuracy(run: RunTables) -> float:
    """Return the mean distance of job ends from deadlines, before or after, in percent of the deadline."""
    due_s = run.jobs["deadline"] - run.jobs["submit"]
    return 100 * float(((run.jobs["finish"] - run.jobs["deadline"]).abs() / due_s).mean())


# Section 7.3: the CPU time that decisions of the policy ARIA take for 500 jobs on 66 nodes.

MANY_NODES, MANY_JOBS = 66, 500
ROUNDS = 3
"""Simulations of one round. Their median counts, since CPU time depends on other work of the host."""

TIMED = ("submit", "heartbeat", "tick")
"""The core's events in which jobs are submitted, slots are computed and tasks are assigned."""


def overhead(bench: Bench) -> Measured:
    """Measure the CPU time in which the policy ARIA schedules one round of tasks for jobs of the workload W1.

    In a round, one heartbeat of every node is answered. Each repeat draws other jobs.
    """
    rounds: list[float] = []
    for seed in seeds_of(bench, "overhead"):
        drawn = workload("W1", MANY_JOBS, 0.95, seed)
        count_drawn(bench, [drawn], MANY_NODES)
        setup = setup_for(drawn, MANY_NODES, seed)
        rounds.append(median(round_s(setup)[0] for _ in range(ROUNDS)))
    return Measured(values={"round_s": rounds})


def setup_for(jobs: Sequence[DueJob], nodes: int, seed: int) -> Setup:
    """Return the setup of a simulation in which these jobs are submitted at once on `nodes` testbed nodes."""
    resolved = with_durations(under_aria(jobs, seed, TESTBED | {"nodes": nodes}, 1.0), jobs)
    return lean_setup(resolved, resolved.policies[0])


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


def _by_threshold(thresholds: Sequence[int], key: str, column: str, **look: Any) -> Panel:
    """Return a chart of the values `key`, in which {} is a threshold, from the lowest threshold to the highest."""
    bars = {str(threshold): key.format(threshold) for threshold in reversed(thresholds)}
    return Panel(bars, COLUMNS[column], "load threshold for arrivals [%]", **look)


DRAW_TABLE3 = panels(
    *(
        _by_threshold(THRESHOLDS, f"{name}_{{}}_{column}", column, label=f"ours, {name}", shade=shade)
        for name, shade in zip(WORKLOADS, OKABE, strict=False)
        for column in COLUMNS
    ),
    columns=2,
)
DRAW_TABLE4 = panels(*(_by_threshold(THRESHOLDS, f"{column}_{{}}", column) for column in COLUMNS))
DRAW_OVERHEAD = panels(
    Panel({f"{MANY_JOBS} jobs on {MANY_NODES} nodes": "round_s"}, "CPU time of a round [s]")
)
EXPERIMENTS = (
    Experiment("table2", drawn_jobs, DRAW_TABLE2, {"sim": 14, "process": 3}, repeats=5),
    Experiment(
        "table3",
        table3,
        DRAW_TABLE3,
        {"sim": 230},
        sim_repeats=LEAST_REPEATS,
        full_repeats=FULL_RUNS,
        size=(7.2, 4.4),
    ),
    Experiment("fig7", fig7, draw_fig7, {"sim": 26}, sim_repeats=LEAST_REPEATS, size=(6.4, 4.0)),
    Experiment("table4", table4, DRAW_TABLE4, {"process": 1900}, repeats=2),
    Experiment("overhead", overhead, DRAW_OVERHEAD, {"sim": 37}, sim_repeats=LEAST_REPEATS),
)
