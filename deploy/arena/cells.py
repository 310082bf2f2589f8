"""A cell of the arena: the simulation of one policy on one workload with one seed, and its row of metrics."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from schedbed import __version__
from schedbed.deploy.arena.courses import Course
from schedbed.scheduler.registry.policy_spec import is_policy_file
from schedbed.tasks.errors import BadInput

FIGURES: Mapping[str, tuple[str, ...]] = {
    "makespan_s": ("makespan_s", "all"),
    "slowdown_mean": ("slowdown", "mean"),
    "slowdown_p95": ("slowdown", "p95"),
    "wait_s": ("wait_s", "jobs", "mean"),
    "task_wait_s": ("wait_s", "tasks", "mean"),
    "jain": ("fair_share_ratio", "jain"),
    "locality": ("locality", "bytes", "node"),
    "late": ("deadlines", "late"),
    "waste_cpu_s": ("waste_cpu_s",),
}
"""Columns of a row, each with the path to its value in the metrics of a run."""
CAUSES = ("splitting", "data", "share", "slot", "offer")
CAUSE_COLUMNS = tuple(f"wait_{cause}_s" for cause in CAUSES)
COLUMNS = (
    "policy",
    "workload",
    "kind",
    "seed",
    "state",
    "note",
    *FIGURES,
    *CAUSE_COLUMNS,
    "jobs",
    "succeeded",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A simulation of the arena: a policy on the workload `course` with a seed."""

    policy: str
    course: Course
    seed: int

    @property
    def label(self) -> str:
        return f"{self.policy} on {self.course.name}, seed {self.seed}"

    @cached_property
    def key(self) -> str:
        """Return a hash of version, policy with its file, workload and seed."""
        said = [__version__, self.policy, self.course.name, self.course.document, self.seed]
        texts = [json.dumps(said, sort_keys=True, default=str).encode()]
        name = self.policy.partition(":")[0]
        if is_policy_file(self.policy) and Path(name).is_file():
            texts.append(Path(name).read_bytes())
        return hashlib.sha256(b"\0".join(texts)).hexdigest()[:24]

    def row(self, state: str, note: str = "") -> Row:
        """Return a row of the result table for this cell, with the given state and note but without metrics."""
        empty = dict.fromkeys((*FIGURES, *CAUSE_COLUMNS, "jobs", "succeeded"))
        return {
            "policy": self.policy,
            "workload": self.course.name,
            "kind": self.course.kind,
            "seed": self.seed,
            "state": state,
            "note": " ".join(note.split()),
            **empty,
        }


def run_cell(cell: Cell, shared: Path, scratch: Path) -> Row:
    """Simulate a cell below `scratch`. A BadInput makes a row `failed`, with its message as the note.

    `shared` caches the seconds that each job takes alone, whatever the policy.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return _simulate(cell, shared, scratch)
        except BadInput as error:
            return cell.row("failed", str(error))


def kept_rows(path: Path) -> dict[str, Row]:
    """Return stored rows by key, without a line that is not complete JSON."""
    found: dict[str, Row] = {}
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        for line in text.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            found[said["key"]] = said["row"]
        if text and not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as out:
                out.write("\n")
    return found


def _simulate(cell: Cell, shared: Path, scratch: Path) -> Row:
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.results import metrics
    from schedbed.deploy.results.record_check import merge_parts
    from schedbed.deploy.results.recorded import Recorded
    from schedbed.deploy.results.referee import Referee
    from schedbed.deploy.results.runfile import RunFile
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.simulated.confined_policies import is_isolated
    from schedbed.deploy.simulated.simulated_runs import SimRuns

    scenario = resolve(cell.course.seeded(cell.seed), policies=[cell.policy], base=cell.course.base)
    with tempfile.TemporaryDirectory(dir=scratch) as made:
        folder = Path(made)
        run = RunFile(
            scenario=scenario.to_json(),
            policies=[choice.spec for choice in scenario.policies],
            repeats=1,
            seed=scenario.seed,
            jobs=[job.job for job in scenario.jobs],
            machines="sim",
        )
        options = RunOptions(machines="sim", live=False, isolated=is_isolated())
        SimRuns(scenario, options).run_all(folder, run)
        run.isolated_s = _alone(cell, scenario, shared)
        merge_parts(folder, run)
        (ended,) = run.runs
        if ended.state != "succeeded":
            return cell.row("failed", ended.note or ended.state)
        mine = Recorded(folder, run).tables(ended.policy, 0)
        if impossible := Referee(run).impossible(ended, mine.tables):
            return cell.row("failed", "; ".join(impossible))
        figures = metrics.measure(mine)
    return cell.row("succeeded", ended.note) | _figures(figures)


def _figures(figures: Mapping[str, Any]) -> Row:
    def at(*path: str) -> float | None:
        value: Any = figures
        for key in path:
            value = value[key]
        return None if value is None or value != value else round(float(value), 9)

    found: Row = {column: at(*path) for column, path in FIGURES.items()}
    for cause, column in zip(CAUSES, CAUSE_COLUMNS, strict=True):
        found[column] = at("wait_s", "tasks", "causes", cause)
    return found | {"jobs": at("jobs", "submitted"), "succeeded": at("jobs", "succeeded")}


def _alone(cell: Cell, scenario: Any, shared: Path) -> dict[str, float]:
    """Return the seconds of each job alone, cached for all policies of a workload and seed."""
    from schedbed.deploy.simulated.isolated import isolated_times

    same = Cell("", cell.course, cell.seed)
    kept = shared / f"{same.key}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(kept.read_text(encoding="utf-8"))
    found = isolated_times(scenario)
    with tempfile.NamedTemporaryFile("w", dir=shared, delete=False, encoding="utf-8") as out:
        json.dump(found, out)
    Path(out.name).replace(kept)
    return found
