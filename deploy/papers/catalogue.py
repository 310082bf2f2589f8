"""The catalogue of all papers and experiments, and the selection of experiments by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.experiment import Experiment
from schedbed.deploy.papers.paper_file import About, Paper
from schedbed.deploy.papers.verdict import Row
from schedbed.deploy.scenario.check import did_you_mean
from schedbed.tasks.errors import BadInput

PAPERS = ("polo2011", "xu2015", "liu2015", "lakshmi2019", "verma2011", "chapter3")
"""The papers. Each is a subfolder with a paper.yaml and with EXPERIMENTS in its __init__.py."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An experiment, the name of its paper, and the content of the paper's `paper.yaml`."""

    paper: str
    said: Paper
    experiment: Experiment

    @property
    def label(self) -> str:
        return f"{self.paper}/{self.experiment.name}"

    @property
    def about(self) -> About:
        """Return the experiment's section of `paper.yaml`."""
        return self.said.experiments[self.experiment.name]


def entries(papers: tuple[str, ...] = PAPERS) -> Mapping[str, CatalogueEntry]:
    """Return the experiments of the given papers, as a dictionary from label (PAPER/EXPERIMENT) to entry."""
    found: dict[str, CatalogueEntry] = {}
    for paper in papers:
        said = paper_file.load(paper)
        for experiment in importlib.import_module(f"schedbed.deploy.papers.{paper}").EXPERIMENTS:
            entry = CatalogueEntry(paper, said, experiment)
            found[entry.label] = entry
    return found


def chosen(
    known: Mapping[str, CatalogueEntry], target: str | None, machines: str, *, quick: bool
) -> list[CatalogueEntry]:
    """Return experiments that `target` (PAPER, PAPER/EXPERIMENT, or None for all) selects. Raises BadInput.

    Only those that run on `machines`, and with `quick` are marked so, are returned.
    """
    if target is None:
        mine = list(known.values())
    elif "/" in target:
        mine = [known[_known(target, known, "experiment")]]
    else:
        paper = _known(target, {entry.paper: entry for entry in known.values()}, "paper")
        mine = [entry for entry in known.values() if entry.paper == paper]
    there = [e for e in mine if e.experiment.runs_on(machines) and (e.experiment.quick or not quick)]
    if not there:
        kinds = ", ".join(sorted({kind for entry in mine for kind in entry.experiment.takes_s}))
        wanted = f"{target or 'all'}{' --quick' if quick else ''}"
        raise BadInput(f"reproduce {wanted}: nothing runs on --machines {machines}, expected {kinds}")
    return there


def _known(name: str, names: Mapping[str, object], what: str) -> str:
    if name not in names:
        raise BadInput(f"reproduce {name}: unknown {what}, {did_you_mean(name, names)}")
    return name


# An experiment that a `reproduce` command has planned, and the result of an experiment.

DONE, BROKEN = "done", "broken"


@dataclass(slots=True, kw_only=True)
class ExperimentResult:
    """An experiment's result. `note` is an error; `figure` is a path in the output folder."""

    entry: CatalogueEntry
    state: str = DONE
    note: str = ""
    took_s: float = 0.0
    repeats: int = 0  # for each seed
    seeds: Sequence[int] = ()
    size: Mapping[str, Sequence[int]] = field(default_factory=dict)  # least and largest, as run
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    figure: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values, as stored in results.json."""
        about = self.entry.about
        return {
            "paper": self.entry.paper,
            "experiment": self.entry.experiment.name,
            "title": about.title,
            "where": about.where,
            "setup": about.setup,
            "printed": about.printed.model_dump(),
            "differs": self.entry.said.unlike(self.entry.experiment.name),
            "state": self.state,
            "note": self.note,
            "took_s": round(self.took_s, 1),
            "repeats": self.repeats,
            "seeds": list(self.seeds),
            "size": dict(self.size),
            "rows": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
            "figure": self.figure,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExperiment:
    """An experiment that a `reproduce` command will run: its position, settings and output folder."""

    number: int
    entry: CatalogueEntry
    machines: str
    repeats: int
    seed: int
    full: bool
    folder: Path
    quick: bool = False  # one seed of a live experiment
    jobs: int = 1  # simulations at a time

    @property
    def takes_s(self) -> float:
        """Return the approximate run time with the default repeats."""
        return self.entry.experiment.about_s(self.machines, quick=self.quick)
