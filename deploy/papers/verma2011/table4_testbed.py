"""Table 4: the late jobs and the load in live runs of the workload W1.

A job arrives when the cluster's load with this job is below a threshold. The load is the sum of the shares of
map and reduce slots in use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.experiment import Experiment, Measured, Values
from schedbed.deploy.papers.figures import beside_paper
from schedbed.deploy.papers.verma2011.arrivals import TESTBED, planned_job, under_aria
from schedbed.deploy.papers.verma2011.w1_and_w2 import DueJob, workload
from schedbed.deploy.results.metrics import RunTables, deadlines
from schedbed.deploy.scenario.resolved import ResolvedScenario, SimulateChoice
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Cost
from schedbed.tasks.workloads.drawn import threshold_arrivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (105, 100, 95, 90, 85)
LIVE_THRESHOLDS = (105, 95)
JOBS, LIVE_JOBS = 15, 6
LIVE, LIVE_SCALE = 8, 0.05
"""The divisor of nodes and tasks, and the factor of all times, when the experiment is live."""


def measure(bench: Bench) -> Measured:
    """Measure the late jobs and the load of the workload W1 for each load threshold.

    A job is submitted when the load stays below the threshold. Each repeat draws other jobs.
    """
    said = paper_file.load("verma2011").experiments["table2"].values
    found: dict[str, list[float]] = defaultdict(list)
    for threshold in LIVE_THRESHOLDS if bench.live else THRESHOLDS:
        for repeat in range(bench.repeats):
            seed = chance(bench.seed, "table4", repeat).getrandbits(62)
            jobs = workload("W1", said, LIVE_JOBS if bench.live else JOBS, threshold / 100, seed)
            plan = scenario(jobs, threshold / 100, seed, live=bench.live)
            finished = bench.run(f"table4-{threshold}-{repeat + 1}", plan, repeats=1)
            run = finished.of(finished.policies[0])
            late = deadlines(run.jobs, run.end_s)
            found[f"late_{threshold}"].append(100 * late["late"] / late["jobs"])
            found[f"exceeded_{threshold}"].append(100 * late["exceeded"] * 100 / late["jobs"])
            found[f"load_{threshold}"].append(100 * _load(run))
            found["accuracy"].append(_accuracy(run))
    return Measured(values=found)


def scenario(jobs: Sequence[DueJob], threshold: float, seed: int, *, live: bool) -> ResolvedScenario:
    """Return a scenario of the jobs under the policy ARIA, with tasks that use only CPU.

    Each job is submitted as soon as the load stays at most `threshold`. The load is estimated before the run:
    a job is assumed to hold the slots that it needs from its submission to its deadline. A live scenario has
    an eighth of the tasks, and its scale shortens all times.
    """
    cluster, scale, size = TESTBED, 1.0, 1
    if live:
        node = TESTBED["node"] | {"core_speed": 0.03, "memory": "512MiB"}
        cluster = TESTBED | {"nodes": TESTBED["nodes"] // LIVE, "heartbeat": "200ms", "node": node}
        scale, size = LIVE_SCALE, LIVE
    bare = under_aria(jobs, seed, cluster, scale)
    (model,) = bare.jobs
    submits_s = threshold_arrivals([(job.load, job.deadline_s) for job in jobs], threshold)
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


def draw(figure: Figure, said: Values, measured: Measured) -> None:
    """Draw the late jobs and the mean load for each load threshold, next to the paper's."""
    axes = figure.subplots(1, 2)
    thresholds = [t for t in reversed(THRESHOLDS) if f"late_{t}" in measured.values]
    for ax, (key, label) in zip(
        axes, (("late", "late jobs of 100"), ("load", "average load [%]")), strict=True
    ):
        keys = [f"{key}_{threshold}" for threshold in thresholds]
        beside_paper(ax, [str(t) for t in thresholds], keys, said, measured)
        ax.set(ylabel=label, xlabel="load threshold for arrivals [%]", ylim=(0, None))


EXPERIMENT = Experiment(name="table4", measure=measure, draw=draw, takes_s={"process": 1500}, repeats=3)
