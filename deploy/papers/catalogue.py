"""The catalogue of all papers and experiments, and the selection of experiments by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.experiment import Experiment
from schedbed.deploy.papers.paper_file import About, Paper
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
        """Return the name of the experiment in the form PAPER/EXPERIMENT."""
        return f"{self.paper}/{self.experiment.name}"

    @property
    def about(self) -> About:
        """Return the section of the paper's `paper.yaml` that describes the experiment."""
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
    """Return the experiments that `target` selects and that can run on `machines` (such as `sim`).

    `known` is a dictionary from label to experiment. `target` is PAPER, PAPER/EXPERIMENT, or None for all.
    With `quick`, only experiments that are marked as quick are returned. Raises BadInput for an unknown name,
    or if no experiment is left.
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
