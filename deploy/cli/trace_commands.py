"""The commands `schedbed trace describe` (prints facts) and `schedbed trace convert` (writes a scenario)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from schedbed.deploy.scenario.jobs import TASKS_MAX
from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.convert import conversion, trace_demands
from schedbed.tasks.traces.describe import QUANTILE_HEADS, contradictions, facts, quantiles
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.fit_cluster import Fit, fit_cluster
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.workloads.from_trace import Assume, assumed

_CHECKED_JOBS = 100  # Number of jobs that are resolved as a check before the file is written.


def show_trace(file: Path, format: str | None, *, fit: bool = False) -> None:
    """Print a trace's description and its assumptions, and with `fit` a cluster for it."""
    trace = read_trace(file, format)
    console = Console(highlight=False)
    for label, value in facts(trace):
        console.print(f"{label:>16}  {value}", markup=False, soft_wrap=True)
    if fit and trace.jobs:
        console.print(
            f"{'a cluster':>16}  {_proposal(fit_cluster(trace, trace_demands(trace)))}", soft_wrap=True
        )
    rows = quantiles(trace)
    if rows:
        console.print(_quantile_table(rows))
    for note in (*contradictions(trace), *_notes(trace)):
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def convert_trace(file: Path, out: Path, format: str | None, jobs: int | None, *, fit: bool = False) -> None:
    """Convert a trace's first `jobs` jobs to a scenario, with `fit` on a cluster for it. Raises BadInput.

    An existing file is never replaced, since it may be the trace.
    """
    if out.exists():
        raise BadInput(f"{out}: is there already, expected the path of a new file")
    trace = read_trace(file, format)
    if trace.topology is not None:
        raise BadInput(f"{file}: a topology of {len(trace.topology.hosts)} hosts, no trace of jobs")
    made = conversion(trace, _name(file), jobs, fit=fit)
    resolve({**made.head, "workload": {"jobs": list(islice(made.jobs, _CHECKED_JOBS))}})
    how = f"schedbed run {out.name}{' --machines sim' if fit else ''}"
    head = [f"Made from the {trace.format} trace {file.name}; run it with: {how}", *made.notes]
    try:
        with out.open("x", encoding="utf-8") as written:
            written.writelines(f"# {line}\n" for line in head)
            written.writelines(f"{line}\n" for line in made.lines())
    except OSError as error:
        raise BadInput(f"{out}: cannot write: {error.strerror or error}") from None
    print(f"{out}: {made.job_count} jobs, {made.task_count} tasks")
    if made.task_count > TASKS_MAX:
        print(f"a scenario takes at most {TASKS_MAX:,} tasks: convert fewer jobs with --jobs")


def validate_traces(
    traces: Sequence[Path],
    out: Path | None,
    recorded: bool,
    framework: str | None,
    policies: Sequence[str] | None,
    sets: Sequence[str],
    fit: bool,
    confs: Sequence[Path],
) -> None:
    """Simulate recorded traces, and print how far completion times are from the recorded ones.

    `framework` has the delays to simulate, such as `hadoop1`. Raises BadInput without `recorded`.
    """
    from schedbed.deploy.studies.recorded_run import validate_recorded
    from schedbed.scheduler.framework import PROFILES

    if not recorded:
        given = "--fit" if fit else "--conf" if confs else f"--framework {framework}"
        raise BadInput(f"{given}: only goes with --recorded, which a scenario's own keys do not need")
    if framework is not None and framework not in PROFILES:
        raise BadInput(f"--framework {framework}: unknown profile, expected {', '.join(PROFILES)}")
    for trace in traces:
        if not trace.exists():
            raise BadInput(f"--recorded: no trace file or folder {str(trace)!r}")
    validate_recorded(
        traces, out, framework=framework, policies=policies, sets=sets, fit=fit, confs=confs, say=print
    )


def _proposal(fit: Fit) -> str:
    slots = f"{fit.map_slots} map and {fit.reduce_slots} reduce slots each"
    return f"{fit.nodes} nodes in {fit.racks} racks, {slots} ({fit.why})"


def _notes(trace: Trace) -> list[str]:
    return [*trace.warnings, *(assumed(trace.jobs, 0, Assume()) if trace.jobs else ())]


def _quantile_table(rows: list[tuple[str, list[str]]]) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 1, 0, 0))
    table.add_column("", justify="right")
    for head in QUANTILE_HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    for label, values in rows:
        table.add_row(label, *values)
    return table


def _name(file: Path) -> str:
    stem = file.name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]", "-", stem).strip("-_") or "trace"
