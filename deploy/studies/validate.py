"""`schedbed validate`: run a scenario live and in the simulator, and report the differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results import metrics
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.results.summary import fidelity_of
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.measured_laws import cpu_factors_of, laws_of
from schedbed.deploy.simulated.recorded_costs import launches_as_in
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.deploy.simulated.task_costs import costs_of
from schedbed.deploy.studies.compare import (
    COMPLETION_MAX,
    LOCALITY_MAX,
    MAKESPAN_MAX,
    PHASES,
    Agreement,
    Pair,
    agreement,
)
from schedbed.deploy.studies.judging import Winner, job_errors, split_repeats, winners
from schedbed.deploy.whole_run import run_scenario
from schedbed.deploy.workspace import result_folder
from schedbed.scheduler.history import read_tables
from schedbed.tasks.errors import BadInput

NAME = "validate.json"
SIM_REPEATS = 25
"""Number of simulated runs of each policy, with different times of heartbeats; their median is compared.

A few milliseconds decide which task a slot gets next, which changes a short run's makespan by several percent.
"""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of comparing the simulation of a scenario with its live runs.

    `found` has the comparison for each policy. `faults` has a text about errors of the simulator that are too
    large, and a text for each policy without a live run to compare with. `left_out` has a line for each live
    run that was not used, since the host could not provide the declared resources.
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
    """Run a scenario live and simulated, print and write the differences, and return them for each policy.

    If `live_folder` has a finished live run, it is used instead of a new one. The output folder gets the
    folders `live/` and `sim/`, and validate.json. Live runs in which the host could not provide the declared
    resources are ignored. For the simulation, launch times and the task costs of applications are computed
    from some of the live repeats; the results are compared with the other repeats (`judging.split_repeats`).
    The task costs of synthetic jobs are those that the scenario declares.

    Raises RunFailed if a run failed, a policy has no usable live run, or an error of the simulator is too
    large.
    """
    if live_folder is not None:
        _check_same_policies(live_folder, [choice.spec for choice in scenario.policies])
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
    """Run a scenario live and simulated, print the differences, and write them to validate.json in `folder`.

    `live_folder`, if given, contains a finished live run to use instead of a new one. Errors of the simulator
    that are too large are listed in `Validation.faults`. Raises RunFailed if a run failed.
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
    latencies = launches_as_in(recorded) if recorded else None
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


@dataclass(frozen=True, slots=True)
class LiveRepeats:
    """The live runs in which the host provided the declared resources, keyed by policy and repeat.

    `left_out` has a line of text for each other run.
    """

    runs: dict[str, dict[int, RunTables]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def repeats(self) -> list[int]:
        """Return the numbers of the repeats that have a usable run under at least one policy."""
        return sorted({repeat for repeats in self.runs.values() for repeat in repeats})

    @classmethod
    def of(cls, folder: Path, policies: Sequence[str]) -> LiveRepeats:
        """Read the successful runs of these policies from a run's folder.

        Runs in which the host could not provide the declared resources are only listed in `left_out`.
        """
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
    """Compare live and simulated runs under each policy that has both, and return a comparison per policy.

    `live` and `sim` are dictionaries from policy to the tables of each repeat.
    """
    return [agreement(policy, live[policy], sim[policy]) for policy in sim if live.get(policy)]


def _costs_from(fitted_on: frozenset[int], judged_on: frozenset[int]) -> str:
    """Return a line of text about the two sets of live repeats of a comparison.

    Launch times and task costs are computed from the repeats `fitted_on`, and the simulation is compared with
    the repeats `judged_on`.
    """
    judged = ", ".join(str(repeat + 1) for repeat in sorted(judged_on)) or "none"
    if not fitted_on:
        return f"launches and costs of applications: the defaults; judged on repeats {judged}"
    fitted = ", ".join(str(repeat + 1) for repeat in sorted(fitted_on))
    return f"launches and costs of applications: fitted to repeats {fitted}; judged on repeats {judged}"


def _faults(found: Sequence[Agreement], judged: Mapping[str, Sequence[RunTables]]) -> list[str]:
    """Return a text for each policy without a live run to compare with, and one about errors that are too
    large.

    `found` has the comparison for each policy, and `judged` is a dictionary from policy to the live runs used
    for it.
    """
    faults = [f"{policy}: no trusted live run to be judged on" for policy, runs in judged.items() if not runs]
    outside = [f"{each.policy}: {', '.join(each.outside)}" for each in found if each.outside]
    if outside:
        faults.append("the simulator is outside its bounds: " + "; ".join(outside))
    return faults


def _check_same_policies(folder: Path, policies: Sequence[str]) -> None:
    for policy in policies:
        if policy not in open_record(folder).policies:
            raise BadInput(f"--against {folder}: holds no run of {policy}, expected one of the same scenario")


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
