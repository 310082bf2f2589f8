"""Cost laws of applications from live runs: measured CPU times, and declared or sampled amounts of data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.task_costs import HANDLING, measured_law
from schedbed.scheduler.simulate.setup import CpuFactors
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.appkit.cost_law import AppCosts
from schedbed.tasks.own.program import FILES
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.workloads.planned import PlannedJob

if TYPE_CHECKING:
    import pandas as pd


def laws_of(scenario: ResolvedScenario, runs: Sequence[RunTables]) -> dict[str, AppCosts]:
    """Return a dictionary from the id of each job that is not synthetic to its measured cost law.

    A cost law gives CPU time and output as functions of the amount of work. CPU times are means over the
    last successful attempts of the tasks in these runs. Measurements by `measure_apps` are too low for live
    runs, since a process on an emulated core needs more CPU time (cold caches, other work on the host's
    core).
    """
    import pandas as pd

    attempts = pd.concat([useful(run.attempts) for run in runs])
    laws: dict[str, AppCosts] = {}
    for job in scenario.jobs:
        mine = attempts[attempts["job"] == job.job]
        if job.app != "synthetic" and len(mine):
            laws[job.job] = _law(scenario, job, mine)
    return laws


def cpu_factors_of(
    scenario: ResolvedScenario, laws: Mapping[str, AppCosts], runs: Sequence[RunTables]
) -> CpuFactors:
    """Return the CPU time of each attempt divided by the CPU time that its job's cost law expects.

    The result has, for each job and task kind, one tuple of factors per run. CPU times of live tasks differ
    by about a tenth, and a simulation uses the factors to imitate this. With equal costs, all maps of a node
    would read at the same time and then compute at the same time. Runs also differ by about a tenth, since
    the host's speed varies. The mean of the factors over all runs is about 1.
    """
    found: dict[tuple[str, TaskKind], list[tuple[float, ...]]] = {}
    for run in runs:
        attempts = useful(run.attempts)
        for job in scenario.jobs:
            if job.job not in laws:
                continue
            mine = attempts[attempts["job"] == job.job]
            for kind, said_s, used_s in _said_and_used_s(job, laws[job.job], mine):
                factors = tuple(
                    max(0.0, used) / said for said, used in zip(said_s, used_s, strict=True) if said > 0
                )
                if factors:
                    found.setdefault((job.job, kind), []).append(factors)
    return found


def _said_and_used_s(
    job: PlannedJob, law: AppCosts, attempts: pd.DataFrame
) -> Iterator[tuple[TaskKind, list[float], list[float]]]:
    """Yield, for maps and then for reduces, the CPU times that `law` expects and those that were measured.

    An item has the task kind and two lists with one number per attempt, in core-seconds of the host. The time
    in which reduces fetch their input is not included.
    """
    maps, reduces = (attempts[attempts["kind"] == kind] for kind in (TaskKind.MAP, TaskKind.REDUCE))
    yield TaskKind.MAP, _said_s(law, _work(job, maps)), (maps["cpu_s"] - HANDLING.attempt_s).tolist()
    count, fetched = maps["task"].nunique(), reduces["shuffle_bytes"].tolist()
    said_s = [law.reduce_start_s + (law.reduce_sort_s + law.reduce_cpu_s) * each for each in fetched]
    used_s = [
        cpu_s - HANDLING.shuffle_s(count, each) for cpu_s, each in zip(reduces["cpu_s"], fetched, strict=True)
    ]
    yield TaskKind.REDUCE, said_s, used_s


def _work(job: PlannedJob, maps: pd.DataFrame) -> list[float]:
    """Return the amount of work of each map, in the unit of the application's cost law.

    The unit is, for example, a byte of input or a random sample to draw.
    """
    count = maps["task"].nunique()
    return [app_of(job).work_of(job.params, int(length), count) for length in maps["length"]]


def _said_s(law: AppCosts, work: Sequence[float]) -> list[float]:
    """Return the core-seconds of the host that the cost law expects for maps with these amounts of work."""
    return [
        law.map_start_s + law.map_cpu_s * each + law.map_sort_s * law.map_output.of(each) for each in work
    ]


def _law(scenario: ResolvedScenario, job: PlannedJob, attempts: pd.DataFrame) -> AppCosts:
    maps, reduces = (attempts[attempts["kind"] == kind] for kind in (TaskKind.MAP, TaskKind.REDUCE))
    count = maps["task"].nunique()
    fetched = float(reduces["shuffle_bytes"].mean()) if len(reduces) else 0.0
    found = _amounts(scenario, job)
    said_s = _said_s(found, _work(job, maps))
    used_s = max(0.0, float(maps["cpu_s"].mean()) - HANDLING.attempt_s)
    factor = used_s * len(said_s) / sum(said_s) if sum(said_s) else 0.0
    merge_s, then_s = _reduce_s(reduces, found, count, fetched)
    return replace(
        found,
        map_start_s=found.map_start_s * factor,
        map_cpu_s=found.map_cpu_s * factor,
        map_sort_s=found.map_sort_s * factor,
        reduce_start_s=then_s,
        reduce_sort_s=merge_s / max(1.0, fetched),
        reduce_cpu_s=0.0,
        note="CPU of a live run",
    )


def _reduce_s(reduces: pd.DataFrame, law: AppCosts, maps: int, fetched: float) -> tuple[float, float]:
    """Return the mean CPU time of reduces in the merge and after the merge, in core-seconds of the host.

    The CPU time of fetching `fetched` bytes from `maps` maps is subtracted from the total. The rest is
    divided in the proportion that `law` expects. The measured duration of the merge cannot be used, since
    other tasks of the node computed at the same time.
    """
    if not len(reduces):
        return 0.0, 0.0
    used_s = max(0.0, float(reduces["cpu_s"].mean()) - HANDLING.shuffle_s(maps, fetched))
    merge_s = law.reduce_sort_s * fetched
    write_s = HANDLING.written_byte_s * float(reduces["output_bytes"].mean())
    then_s = law.reduce_start_s + law.reduce_cpu_s * fetched + write_s
    share = merge_s / (merge_s + then_s) if merge_s + then_s else 0.0
    return share * used_s, (1 - share) * used_s


def _amounts(scenario: ResolvedScenario, job: PlannedJob) -> AppCosts:
    known = app_of(job).costs
    own = FILES in job.params  # costs measured or declared with the same parameters
    return known if known is not None and (own or not job.params) else measured_law(scenario, job)
