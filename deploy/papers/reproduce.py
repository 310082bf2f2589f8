"""The command `reproduce`: runs the chosen experiments and writes results.json, figures and index.html."""

from __future__ import annotations

import json
import math
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.deploy import hostwatch
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers import page, terminal
from schedbed.deploy.papers.bench import Bench, FinishedRun, Size
from schedbed.deploy.papers.catalogue import BROKEN, CatalogueEntry, ExperimentResult, PlannedExperiment
from schedbed.deploy.papers.experiment import Measured
from schedbed.deploy.papers.figures import draw
from schedbed.deploy.papers.verdict import Exact, Row, judge
from schedbed.deploy.results.fidelity import doubts
from schedbed.deploy.results.summary import load
from schedbed.deploy.side_by_side import SideWork, side_by_side
from schedbed.deploy.worker_fork import RESULT, STOPPED, Send, WorkEnd
from schedbed.deploy.workspace import locked, result_folder
from schedbed.tasks.errors import BadInput

RESULTS = "results.json"

Say = Callable[[str], object]


@dataclass(slots=True, kw_only=True)
class Reproduction:
    """The content of results.json: the results of one `reproduce` command, with host, versions and seed."""

    machines: str
    seed: int
    wall_start: str
    versions: dict[str, str]
    host: dict[str, Any]
    results: list[ExperimentResult] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write results.json and index.html, after each experiment, so that an interruption keeps finished ones."""
        content = {
            "machines": self.machines,
            "seed": self.seed,
            "wall_start": self.wall_start,
            "versions": self.versions,
            "host": self.host,
            "papers": {
                each.entry.paper: each.entry.said.model_dump(exclude={"experiments"}) for each in self.results
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
    quick: bool = False,
    jobs: int = 1,
) -> Path:
    """Run the chosen experiments. Return the folder, by default `runs/reproduce-<time>`.

    Up to `jobs` simulations run in parallel: of different papers or, for one paper, runs of a scenario.
    `full` has the paper's size, `quick` one seed of live experiments. A claim that does not hold is no error.
    Raises RunFailed for a failed experiment, after all were tried, and BadInput if the folder has results.
    Ctrl-C keeps finished experiments.
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
    planned = [
        PlannedExperiment(
            number=number,
            entry=entry,
            machines=machines,
            repeats=repeats
            or (full and entry.experiment.full_repeats)
            or entry.experiment.repeats_on(machines),
            seed=seed,
            full=full,
            quick=quick,
            folder=folder,
        )
        for number, entry in enumerate(chosen, 1)
    ]
    with locked(folder):
        _run_planned(planned, jobs, made, folder, say)
    say(f"{terminal.tally(made.results, machines)}\nResults: {folder}  (open {folder / page.NAME})")
    broken = [result.entry.label for result in made.results if result.state == BROKEN]
    if broken:
        raise RunFailed(f"broken: {', '.join(broken)}; see {folder / RESULTS}")
    return folder


def _run_planned(
    planned: Sequence[PlannedExperiment], jobs: int, made: Reproduction, folder: Path, say: Say
) -> None:
    """Run the experiments, and save and print all results after each. `made` collects them."""
    results: dict[int, ExperimentResult] = {}

    def begin(job: PlannedExperiment) -> None:
        say(terminal.heading(job.entry, job.takes_s, job.number, len(planned)))

    def done(job: PlannedExperiment, result: ExperimentResult) -> None:
        results[job.number] = result
        made.results = [results[number] for number in sorted(results)]
        made.save(folder)
        say(terminal.result(result))

    def done_aside(job: PlannedExperiment, result: ExperimentResult) -> None:
        begin(job)
        done(job, result)

    papers = {
        job.entry.paper: [each for each in planned if each.entry.paper == job.entry.paper] for job in planned
    }
    if made.machines == "sim" and jobs > 1 and len(papers) > 1:
        _run_papers(list(papers.values()), jobs, done_aside)
        return
    finished: dict[Path, FinishedRun] = {}
    for job in planned:
        begin(job)
        done(job, run(replace(job, jobs=jobs), finished))


def _run_papers(
    papers: Sequence[Sequence[PlannedExperiment]],
    jobs: int,
    done: Callable[[PlannedExperiment, ExperimentResult], None],
) -> None:
    """Run up to `jobs` papers in parallel, the longest first. Raises RunFailed if a worker dies."""

    def work(mine: Sequence[PlannedExperiment]) -> SideWork:
        left = list(mine)

        def take(said: dict[str, Any]) -> None:
            job = left.pop(0)
            rows = [Row(**row) for row in said.pop("rows")]
            done(job, ExperimentResult(entry=job.entry, rows=rows, **said))

        def ended(end: WorkEnd) -> None:
            if end.kind not in (RESULT, STOPPED):
                raise RunFailed(f"the process of {left[0].entry.label} died: {end.value}")

        def begin() -> None:
            left[:] = mine
            shutil.rmtree(mine[0].folder / "runs" / mine[0].entry.paper, ignore_errors=True)

        return SideWork(do=partial(_experiments, mine), begin=begin, take=take, ended=ended)

    longest_first = sorted(papers, key=lambda mine: -sum(job.takes_s for job in mine))
    side_by_side([work(mine) for mine in longest_first], jobs)


def _experiments(mine: Sequence[PlannedExperiment], send: Send) -> None:
    """Run the experiments of one paper, and send each result to the parent process."""
    finished: dict[Path, FinishedRun] = {}
    for job in mine:
        found = run(job, finished)
        about = {"state": found.state, "note": found.note, "took_s": found.took_s, "repeats": found.repeats}
        made = {"seeds": found.seeds, "size": found.size, "notes": found.notes, "figure": found.figure}
        send(about | made | {"rows": [row.to_json() for row in found.rows]})


def _write(path: Path, text: str) -> None:
    tmp = path.with_name(f".{path.name}.tmp")
    tmp.write_text(text, encoding="utf-8")
    tmp.replace(path)


# Runs one experiment with each seed, and compares the measured values with the paper's.


def run(job: PlannedExperiment, finished: dict[Path, FinishedRun]) -> ExperimentResult:
    """Run one experiment, judge its values and draw its figure. The result has an error if it failed.

    Experiments of a paper share `finished` runs, by folder. The figure shows the first seed.
    """
    began_s = time.monotonic()
    entry, folder = job.entry, job.folder
    seeds = entry.experiment.seeds_on(job.machines, job.seed, quick=job.quick)
    result = ExperimentResult(entry=entry, repeats=job.repeats, seeds=seeds)
    benches = [_bench(job, seed, finished) for seed in seeds]
    try:
        measured = [entry.experiment.measure(bench) for bench in benches]
        result.size = _ranges([size for bench in benches for size in bench.sizes])
        result.rows = _judged(entry, measured, result.size)
        idle = [row.key for row in result.rows if row.kind == "outcome" and not benches[0].ran]
        if idle:
            raise ValueError(f"outcomes of an experiment that ran no task: {', '.join(idle)}")
        doubted = (note for bench in benches for note in _doubts(bench))
        result.notes = (*dict.fromkeys((*measured[0].notes, *doubted)),)
        result.figure = f"figures/{entry.paper}-{entry.experiment.name}.svg"
        draw(folder / result.figure, entry.experiment, entry.about.values, measured[0])
    except (BadInput, RunFailed) as error:
        result.state, result.note = BROKEN, str(error)
    except Exception as error:
        result.state, result.note = BROKEN, f"{type(error).__name__}: {error}"
        kept = folder / f"{entry.paper}-{entry.experiment.name}.traceback.txt"
        kept.write_text(traceback.format_exc(), encoding="utf-8")
    result.took_s = time.monotonic() - began_s
    return result


def _bench(job: PlannedExperiment, seed: int, finished: dict[Path, FinishedRun]) -> Bench:
    return Bench(
        job.folder / "runs" / job.entry.paper / f"seed-{seed}",
        machines=job.machines,
        repeats=job.repeats,
        seed=seed,
        finished=finished,
        full=job.full,
        jobs=job.jobs,
    )


def _ranges(sizes: Sequence[Size]) -> dict[str, list[int]]:
    """Return the least and the largest number of nodes, jobs and tasks of the scenarios that ran."""
    names = sizes[0] if sizes else ()
    return {name: [find(size[name] for size in sizes) for find in (min, max)] for name in names}


def _judged(
    entry: CatalogueEntry, measured: Sequence[Measured], size: Mapping[str, Sequence[int]]
) -> list[Row]:
    """Return the rows of an experiment, from what was measured with each seed."""
    about, meets = entry.about, entry.said.meets(entry.experiment.name, size)
    unknown = set(measured[0].values) - set(about.values)
    if unknown:
        raise KeyError(f"paper.yaml does not know {', '.join(sorted(unknown))}")
    rows = []
    for key, value in about.values.items():
        ours = [each.values[key] for each in measured if key in each.values]
        if ours:
            found = next((each for each in ours if isinstance(each, Exact)), None)
            samples = [list(map(_plain, each)) for each in ours if not isinstance(each, Exact)]
            rows.append(judge(key, value, about.where, found or samples, meets=meets))
    return rows


def _plain(value: float) -> float | None:
    """Return a value as JSON has it: None if it is not a number."""
    return None if math.isnan(value) else float(value)


def _doubts(bench: Bench) -> Iterator[str]:
    """Yield a note, with the first reason, for each run without its declared resources."""
    for folder in dict.fromkeys(bench.used):
        fidelity = load(folder)["fidelity"]
        if not fidelity["trusted"]:
            why = doubts(fidelity)
            more = f" Its report has {len(why) - 1} more reasons." if len(why) > 1 else ""
            yield f"Not to be trusted, the run {folder.parent.name}: {why[0]}{more}"
