"""Execution of the chosen experiments, with their results in one folder: results.json, figures and index.html."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedbed.deploy import hostwatch
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers import page, side_by_side, terminal
from schedbed.deploy.papers.bench import Played
from schedbed.deploy.papers.catalogue import CatalogueEntry
from schedbed.deploy.papers.experiment_result import BROKEN, ExperimentResult, PlannedExperiment
from schedbed.deploy.papers.run_experiment import run
from schedbed.deploy.workspace import locked, result_folder
from schedbed.tasks.errors import BadInput

RESULTS = "results.json"

Say = Callable[[str], object]


@dataclass(slots=True, kw_only=True)
class Reproduction:
    """The results of one reproduce command."""

    machines: str
    seed: int
    wall_start: str
    versions: dict[str, str]
    host: dict[str, Any]
    results: list[ExperimentResult] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write results.json and index.html. Called after each experiment, so that finished experiments are kept."""
        content = {
            "machines": self.machines,
            "seed": self.seed,
            "wall_start": self.wall_start,
            "versions": self.versions,
            "host": self.host,
            "papers": {
                each.entry.paper: each.entry.said.model_dump(exclude={"experiments", "posterior"})
                for each in self.results
            },
            "experiments": [result.to_json() for result in self.results],
        }
        _write(folder / RESULTS, json.dumps(content, indent=1, allow_nan=False, default=str) + "\n")
        _write(folder / page.NAME, page.text(content, folder))


def reproduce(
    chosen: Sequence[CatalogueEntry],
    *,
    machines: str,
    repeats: int | None,
    seed: int,
    out: Path | None,
    say: Say,
    full: bool = False,
) -> Path:
    """Run the experiments into `out` (`runs/reproduce-<time>` by default) and return this folder.

    A claim that does not hold is a finding. Raises RunFailed, after all have been tried, if an experiment itself
    failed, and BadInput if the folder already has results. After Ctrl-C the finished experiments are kept.
    """
    started = datetime.now(UTC)
    folder = result_folder(out, "reproduce", started)
    if (folder / RESULTS).exists():
        raise BadInput(f"--out {folder}: holds a reproduction already, expected a new or empty folder")
    made = Reproduction(
        machines=machines,
        seed=seed,
        wall_start=started.isoformat(timespec="seconds"),
        versions=hostwatch.versions(),
        host=hostwatch.describe_host(),
    )
    jobs = [
        PlannedExperiment(
            number=number,
            entry=entry,
            machines=machines,
            repeats=repeats
            or (full and entry.experiment.full_repeats)
            or entry.experiment.repeats_on(machines),
            seed=seed,
            full=full,
            folder=folder,
        )
        for number, entry in enumerate(chosen, 1)
    ]
    with locked(folder):
        _play(jobs, made, folder, say)
    say(f"{terminal.tally(made.results, machines)}\nResults: {folder}  (open {folder / page.NAME})")
    broken = [result.entry.label for result in made.results if result.state == BROKEN]
    if broken:
        raise RunFailed(f"broken: {', '.join(broken)}; see {folder / RESULTS}")
    return folder


def _play(jobs: Sequence[PlannedExperiment], made: Reproduction, folder: Path, say: Say) -> None:
    """Run the experiments and save after each one."""
    results: dict[int, ExperimentResult] = {}

    def begin(job: PlannedExperiment) -> None:
        say(terminal.heading(job.entry, job.machines, job.number, len(jobs)))

    def done(job: PlannedExperiment, result: ExperimentResult) -> None:
        results[job.number] = result
        made.results = [results[number] for number in sorted(results)]
        made.save(folder)
        say(terminal.result(result))

    def done_aside(job: PlannedExperiment, result: ExperimentResult) -> None:
        begin(job)
        done(job, result)

    if made.machines == "sim" and len({job.entry.paper for job in jobs}) > 1:
        side_by_side.play(jobs, done_aside)
        return
    played: dict[Path, Played] = {}
    for job in jobs:
        begin(job)
        done(job, run(job, played))


def _write(path: Path, text: str) -> None:
    tmp = path.with_name(f".{path.name}.tmp")
    tmp.write_text(text, encoding="utf-8")
    tmp.replace(path)
