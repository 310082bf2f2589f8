"""An experiment that a `reproduce` command has planned, and the result of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedbed.deploy.papers.catalogue import CatalogueEntry
from schedbed.deploy.papers.experiment import kind
from schedbed.deploy.papers.verdict import Row

DONE, BROKEN = "done", "broken"


@dataclass(slots=True, kw_only=True)
class ExperimentResult:
    """The result of one experiment.

    `note` is the error message if the experiment failed. `figure` is the path of the figure in the output
    folder.
    """

    entry: CatalogueEntry
    state: str = DONE
    note: str = ""
    took_s: float = 0.0
    repeats: int = 0
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    figure: str = ""
    runs: Sequence[str] = ()  # folders of runs

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values, as stored in results.json."""
        about = self.entry.about
        return {
            "paper": self.entry.paper,
            "experiment": self.entry.experiment.name,
            "title": about.title,
            "where": about.where,
            "setup": about.setup,
            "state": self.state,
            "note": self.note,
            "took_s": round(self.took_s, 1),
            "repeats": self.repeats,
            "rows": [row.to_json() for row in self.rows],
            "notes": list(self.notes),
            "figure": self.figure,
            "runs": list(self.runs),
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
    jobs: int = 1  # simulations at a time

    @property
    def takes_s(self) -> float:
        """Return the approximate run time of the experiment in s with the default number of repeats."""
        return self.entry.experiment.takes_s.get(kind(self.machines), 0.0)
