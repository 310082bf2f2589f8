"""`schedbed validate`: run a scenario live and in the simulator, and report the differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results import metrics
from schedbed.deploy.results.metrics import RunTables, select, useful
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.summary import fidelity_of
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.recorded_costs import launches_as_in
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.deploy.simulated.task_costs import HANDLING, costs_of, measured_law
from schedbed.deploy.studies.compare import (
    COMPLETION_MAX,
    LOCALITY_MAX,
    MAKESPAN_MAX,
    PHASES,
    Agreement,
    Pair,
    Winner,
    agreement,
    job_errors,
    split_repeats,
    winners,
)
from schedbed.deploy.whole_run import run_scenario
from schedbed.deploy.workspace import result_folder
from schedbed.scheduler.history import read_tables
from schedbed.scheduler.simulate.setup import CpuFactors
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.appkit.cost_law import AppCosts
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.program import FILES
from schedbed.tasks.specs import TaskKind
from schedbed.tasks.workloads.planned import PlannedJob

if TYPE_CHECKING:
    import pandas as pd

NAME = "validate.json"
SIM_REPEATS = 25
"""Number of simulated runs of each policy, with different times of heartbeats; their median is compared.

A few milliseconds decide which task a slot gets next, which changes a short run's makespan by several percent.
"""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of comparing a scenario's simulation with live runs: per policy, and the winner.

    `faults` are about too large errors, and policies without a live run to compare with. `left_out` lists
    live runs that were not used, since the host could not provide the declared resources.
    """

    found: tuple[Agreement, ...]
    winner: Winner | None
    left_out: tuple[str, ...]
    faults: tuple[str, ...]


def validate(
    scenario: ResolvedScenario,
    options: RunOptions,
    *,
    live_folder: Path | None = None,
    show_phases: bool = False,
    say: Say = print,
) -> tuple[Agreement, ...]:
    """Run a scenario live (or use `live_folder`) and simulated. Print, write and return differences by
    policy.

    The output folder gets the folders `live/` and `sim/`, and validate.json. Live runs in which the host
    could not provide the declared resources are ignored. Launch times and applications' task costs are
    computed from some of the live repeats; results are compared with the others (`judging.split_repeats`).
    Synthetic jobs have their declared costs. Raises RunFailed if a run failed, a policy has no usable live
    run, or an error of the simulator is too large.
    """
    if live_folder is not None:
        _check_live(live_folder, scenario)
    folder = result_folder(options.out, f"{scenario.name}-validate", datetime.now(UTC))
    held = hold_against_live(
        scenario, folder, options, live_folder=live_folder, show_phases=show_phases, say=say
    )
    if held.faults:
        raise RunFailed("; ".join(held.faults))
    return held.found


def hold_against_live(
    scenario: ResolvedScenario,
    folder: Path,
    options: RunOptions,
    *,
    live_folder: Path | None = None,
    show_phases: bool = False,
    say: Say = print,
) -> Validation:
    """Run a scenario live (or use `live_folder`) and simulated. Print differences, and write validate.json.

    Errors of the simulator that are too large are in `Validation.faults`. Raises RunFailed if a run failed.
    """
    scenario = scenario.without_learning()
    if live_folder is None:
        live_folder = run_scenario(scenario, RunOptions(out=folder / "live", live=options.live, check=False))
    simulated = replace(scenario, repeats=SIM_REPEATS, simulate=replace(scenario.simulate, contention=True))
    measured = LiveRepeats.of(live_folder, [choice.spec for choice in scenario.policies])
    fitted_on, judged_on = split_repeats(measured.repeats)
    recorded = [
        run for repeats in measured.runs.values() for repeat, run in repeats.items() if repeat in fitted_on
    ]
    laws = laws_of(simulated, recorded) if recorded else {}
    costs, cpu_factors = costs_of(simulated, laws), cpu_factors_of(simulated, laws, recorded)
    # With a framework, recorded launches contain its waits, which the simulation has anyway.
    latencies = launches_as_in(recorded) if recorded and scenario.framework.is_none else None
    sim_folder = run_scenario(
        simulated,
        replace(options, out=folder / "sim", machines="sim"),
        lambda resolved, options: SimRuns(
            resolved, options, costs, latencies, cpu_factors=cpu_factors, as_live=True
        ),
    )
    judged = {
        policy: [run for repeat, run in repeats.items() if repeat in judged_on]
        for policy, repeats in measured.runs.items()
    }
    found = compare(judged, _runs(sim_folder))
    completion_s = {
        policy: [metrics.completion(run.jobs)["mean"] for run in repeats.values()]
        for policy, repeats in measured.runs.items()
    }
    best = winners(found, completion_s)
    report = {
        "policies": [each.to_json() for each in found],
        "winner": None if best is None else best.to_json(),
        "fitted_on": sorted(fitted_on),
        "judged_on": sorted(judged_on),
        "left_out": measured.left_out,
    }
    (folder / NAME).write_text(json.dumps(report, indent=1) + "\n")
    for each in found:
        _show(each, say, show_phases)
    if best is not None:
        say(f"\n{best}")
    say(_costs_from(fitted_on, judged_on))
    for doubt in measured.left_out:
        say(f"note: left out, not trusted: {doubt}")
    say(f"Results: {folder / NAME}")
    return Validation(tuple(found), best, tuple(measured.left_out), tuple(_faults(found, judged)))


DECLARED = ("seed", "scale", "cluster", "jobs", "inputs", "faults")
"""The values in which a live run must be the scenario's to be compared with."""


@dataclass(frozen=True, slots=True)
class LiveRepeats:
    """The live runs with the declared resources, by policy and repeat. `left_out` has a line for each other."""

    runs: dict[str, dict[int, RunTables]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def repeats(self) -> list[int]:
        """Return the repeats with a usable run under any policy."""
        return sorted({repeat for repeats in self.runs.values() for repeat in repeats})

    @classmethod
    def of(cls, folder: Path, policies: Sequence[str]) -> LiveRepeats:
        """Read the successful runs of these policies; those without the declared resources are `left_out`."""
        run, tables = open_record(folder), read_tables(folder)
        found = cls({policy: {} for policy in policies})
        for record in run.runs:
            if record.state != "succeeded" or record.policy not in found.runs:
                continue
            mine = select(tables, run.nodes, record.policy, record.repeat)
            fidelity = fidelity_of(run, record, mine)
            if fidelity["trusted"]:
                found.runs[record.policy][record.repeat] = mine
            else:
                why = " ".join(fidelity["why"])
                found.left_out.append(f"{record.policy}, repeat {record.repeat + 1}: {why}")
        return found


def compare(
    live: Mapping[str, Sequence[RunTables]], sim: Mapping[str, Sequence[RunTables]]
) -> list[Agreement]:
    """Compare live and simulated runs under each policy that has both."""
    return [agreement(policy, live[policy], sim[policy]) for policy in sim if live.get(policy)]


def _costs_from(fitted_on: frozenset[int], judged_on: frozenset[int]) -> str:
    """Return a line about the live repeats that costs were computed from, and those compared with."""
    judged = ", ".join(str(repeat + 1) for repeat in sorted(judged_on)) or "none"
    if not fitted_on:
        return f"launches and costs of applications: the defaults; judged on repeats {judged}"
    fitted = ", ".join(str(repeat + 1) for repeat in sorted(fitted_on))
    return f"launches and costs of applications: fitted to repeats {fitted}; judged on repeats {judged}"


def _faults(found: Sequence[Agreement], judged: Mapping[str, Sequence[RunTables]]) -> list[str]:
    """Return a text for each policy without a live run to compare with, and one about too large errors."""
    faults = [f"{policy}: no trusted live run to be judged on" for policy, runs in judged.items() if not runs]
    outside = [f"{each.policy}: {', '.join(each.outside)}" for each in found if each.outside]
    if outside:
        faults.append("the simulator is outside its bounds: " + "; ".join(outside))
    return faults


def _check_live(folder: Path, scenario: ResolvedScenario) -> None:
    """Raise BadInput unless the folder has live runs of the scenario under its policies."""
    run = open_record(folder)
    if run.machines == "sim":
        raise BadInput(f"--against {folder}: simulated, expected a live run of the same scenario")
    for choice in scenario.policies:
        if choice.spec not in run.policies:
            raise BadInput(
                f"--against {folder}: holds no run of {choice.spec}, expected one of the same scenario"
            )
    mine = json.loads(json.dumps(scenario.to_json(), default=str))
    other = [key for key in DECLARED if _declared(mine, key) != _declared(run.scenario, key)]
    if other:
        raise BadInput(
            f"--against {folder}: a run of another scenario ({', '.join(other)} differ), "
            "expected one of the same scenario"
        )


def _declared(scenario: Mapping[str, Any], key: str) -> Any:
    """Return a value of a scenario without what a live run may choose: the stretch, and racks by host."""
    value = scenario.get(key)
    if key != "cluster" or value is None:
        return value
    nodes = [{name: of for name, of in node.items() if name != "rack"} for node in value["nodes"]]
    return {**value, "nodes": nodes, "stretch": None}


def _runs(folder: Path) -> dict[str, list[RunTables]]:
    run, tables = open_record(folder), read_tables(folder)
    made: dict[str, list[RunTables]] = {}
    for record in run.runs:
        if record.state == "succeeded":
            mine = select(tables, run.nodes, record.policy, record.repeat)
            made.setdefault(record.policy, []).append(mine)
    return made


def _show(found: Agreement, say: Say, show_phases: bool) -> None:
    count = len(found.makespan_s.live)
    repeats = len(found.makespan_s.simulated)
    say(f"\n{found.policy}: live (median of {count}) against simulated (median of {repeats})")
    rows = [
        _row("makespan [s]", found.makespan_s, f"within {MAKESPAN_MAX:.0%}"),
        _row("completion, mean [s]", found.completion_s, f"within {COMPLETION_MAX:.0%}"),
        _local_row(found.locality),
        *(_row(f"  {name}", pair, "") for name, pair in found.jobs.items()),
    ]
    _table(("", "live", "simulated", "error", "bound"), rows, say)
    if found.jobs:
        say(f"jobs: {job_errors(found)}")
    covers = [each[2] for each in (found.makespan_s.measured_interval, found.makespan_s.sim_interval) if each]
    if len(covers) == 2:
        say(f"[..]: intervals of the medians, which cover {covers[0]:.0%} live and {covers[1]:.0%} simulated")
    among = (
        "" if found.order_live is None else f"; of the live repeats among themselves {found.order_live:.3f}"
    )
    say(f"order of launches (Kendall's tau): {found.order:.3f}{among}")
    if found.outside:
        say(f"OUTSIDE: {', '.join(found.outside)}")
    if show_phases:
        _show_phases(found, say)


def _show_phases(found: Agreement, say: Say) -> None:
    """Print a table with the mean seconds of each phase in live and in simulated runs."""
    rows = [
        (group, *(_both(pairs[name]) if name in pairs else "" for name in PHASES))
        for group, pairs in found.phases.items()
    ]
    say("\nmean seconds of each phase, live > simulated")
    _table(("", *PHASES), rows, say)


def _both(pair: Pair) -> str:
    return f"{pair.measured:.3f} > {pair.sim:.3f}"


def _row(label: str, pair: Pair, bound: str) -> tuple[str, ...]:
    live = _median(pair.measured, pair.measured_interval)
    error, interval = f"{pair.error:+.1%}", pair.error_interval
    if interval is not None:
        error += f" [{interval[0]:+.1%}, {interval[1]:+.1%}]"
    return label, live, _median(pair.sim, pair.sim_interval), error, bound


def _median(value: float, interval: tuple[float, float, float] | None) -> str:
    return f"{value:.2f}" if interval is None else f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _local_row(pair: Pair) -> tuple[str, ...]:
    points = 100 * (pair.sim - pair.measured)
    bound = f"within {100 * LOCALITY_MAX:.0f} points"
    return (
        "node-local maps [%]",
        f"{100 * pair.measured:.1f}",
        f"{100 * pair.sim:.1f}",
        f"{points:+.1f}",
        bound,
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], say: Say) -> None:
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
        ]
        say("  ".join(cells).rstrip())


# Cost laws of applications from live runs: measured CPU times, and declared or sampled amounts of data.


def laws_of(scenario: ResolvedScenario, runs: Sequence[RunTables]) -> dict[str, AppCosts]:
    """Return the measured cost law of each job that is not synthetic, by id.

    CPU times are means over the last successful attempts in these runs. Measurements by `measure_apps` are
    too low for live runs, since a process on an emulated core needs more CPU time (cold caches, other work on
    the host's core).
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
    """Return the CPU time of each attempt divided by that of its cost law, a tuple per run by job and kind.

    CPU times of live tasks differ by about a tenth. With equal costs, all simulated maps of a node would read
    at the same time and then compute at the same time. Runs also differ by about a tenth, since the host's
    speed varies. The mean over all runs is about 1.
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
    """Yield, for maps and reduces, the expected and the measured CPU times of attempts, in host core-seconds.

    The time in which reduces fetch is not included.
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
    """Return each map's amount of work in the cost law's unit, such as a byte of input or a random sample."""
    count = maps["task"].nunique()
    return [app_of(job).work_of(job.params, int(length), count) for length in maps["length"]]


def _said_s(law: AppCosts, work: Sequence[float]) -> list[float]:
    """Return the host core-seconds that the law expects for maps."""
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
    """Return the mean host core-seconds of reduces in the merge and after it.

    Fetching is subtracted, and the rest divided as `law` expects. The merge's measured duration cannot be
    used, since other tasks of the node computed at the same time.
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
