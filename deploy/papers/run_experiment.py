"""Runs one experiment, and compares the measured values with the paper's."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers.bench import Bench, FinishedRun
from schedbed.deploy.papers.experiment_result import BROKEN, ExperimentResult, PlannedExperiment
from schedbed.deploy.papers.figures import draw
from schedbed.deploy.papers.verdict import judge
from schedbed.deploy.results.fidelity import doubts
from schedbed.deploy.results.summary import load
from schedbed.tasks.errors import BadInput


def run(job: PlannedExperiment, finished: dict[Path, FinishedRun]) -> ExperimentResult:
    """Run one experiment, judge the measured values, draw the figure, and return the result.

    If the experiment fails, the error is stored in the result. `finished` is a dictionary from folder to
    finished run that the experiments of one paper share; new runs are added.
    """
    began_s = time.monotonic()
    entry, folder = job.entry, job.folder
    bench = Bench(
        folder / "runs" / entry.paper,
        machines=job.machines,
        repeats=job.repeats,
        seed=job.seed,
        finished=finished,
        full=job.full,
        jobs=job.jobs,
    )
    result = ExperimentResult(entry=entry, repeats=bench.repeats)
    try:
        measured = entry.experiment.measure(bench)
        said = entry.about.values
        unknown = set(measured.values) - set(said)
        if unknown:
            raise KeyError(f"paper.yaml does not know {', '.join(sorted(unknown))}")
        result.rows = [
            judge(key, value, entry.about.where, measured.values[key])
            for key, value in said.items()
            if key in measured.values
        ]
        idle = [row.key for row in result.rows if row.kind == "outcome" and not bench.ran]
        if idle:
            raise ValueError(f"outcomes of an experiment that ran no task: {', '.join(idle)}")
        result.notes = (*measured.notes, *_doubts(bench))
        result.figure = f"figures/{entry.paper}-{entry.experiment.name}.svg"
        draw(folder / result.figure, entry.experiment, said, measured)
    except (BadInput, RunFailed) as error:
        result.state, result.note = BROKEN, str(error)
    except Exception as error:
        result.state, result.note = BROKEN, f"{type(error).__name__}: {error}"
        kept = folder / f"{entry.paper}-{entry.experiment.name}.traceback.txt"
        kept.write_text(traceback.format_exc(), encoding="utf-8")
    result.took_s = time.monotonic() - began_s
    result.runs = [str(path.relative_to(folder)) for path in bench.used]
    return result


def _doubts(bench: Bench) -> Iterator[str]:
    """Yield a note for each run of the experiment in which the host could not provide the declared resources.

    The note has the first reason, and the number of other reasons in the run's report.
    """
    for folder in dict.fromkeys(bench.used):
        fidelity = load(folder)["fidelity"]
        if not fidelity["trusted"]:
            why = doubts(fidelity)
            more = f" Its report has {len(why) - 1} more reasons." if len(why) > 1 else ""
            yield f"Not to be trusted, the run {folder.name}: {why[0]}{more}"
