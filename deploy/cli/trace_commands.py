"""`schedbed trace describe` and `trace convert`: an outside trace in words, and as a scenario file."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from schedbed.deploy.scenario.resolve import resolve
from schedbed.tasks.errors import BadInput
from schedbed.tasks.traces.convert import scenario_of
from schedbed.tasks.traces.describe import QUANTILE_HEADS, facts, quantiles
from schedbed.tasks.traces.detect import read_trace
from schedbed.tasks.traces.trace import Trace
from schedbed.tasks.workloads.from_trace import Assume, synthesize


def show_trace(file: Path, format: str | None) -> None:
    """Prints what is in a trace and what a workload made of it would assume."""
    trace = read_trace(file, format)
    console = Console(highlight=False)
    for label, value in facts(trace):
        console.print(f"{label:>16}  {value}", markup=False)
    rows = quantiles(trace)
    if rows:
        console.print(_quantile_table(rows))
    for note in _notes(trace):
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def convert_trace(file: Path, out: Path, format: str | None, jobs: int | None) -> None:
    """Writes a trace as a scenario that runs; BadInput when it is no trace of jobs or the file cannot be written."""
    trace = read_trace(file, format)
    if trace.topology is not None:
        raise BadInput(f"{file}: a topology of {len(trace.topology.hosts)} hosts, no trace of jobs")
    values, notes = scenario_of(trace, _name(file), jobs)
    resolved = resolve(values)
    text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=140)
    head = [f"Made from the {trace.format} trace {file.name}; run it with: schedbed run {out.name}", *notes]
    try:
        out.write_text("".join(f"# {line}\n" for line in head) + text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{out}: cannot write: {error.strerror or error}") from None
    tasks = sum(job.maps + job.reduces for job in resolved.jobs)
    print(f"{out}: {len(resolved.jobs)} jobs, {tasks} tasks")


def _notes(trace: Trace) -> list[str]:
    return synthesize(trace, trace.jobs, Assume())[1] if trace.jobs else list(trace.warnings)


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
