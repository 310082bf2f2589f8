"""The measured window of a run (`measure` in a scenario), and tables restricted to it.

Metrics of jobs and tasks cover the jobs submitted in [from, until), even if they end later. Metrics of the
cluster (shares, use, running tasks, heartbeats) cover that time, with all jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, "pd.DataFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured window, in seconds since the run's start; `until_s` is infinity without an end."""

    from_s: float = 0.0
    until_s: float = math.inf

    @staticmethod
    def of(measure: Mapping[str, Any] | None) -> Window | None:
        """Return the window for the entry `measure` of a resolved scenario, or None if the whole run is measured."""
        if not measure:
            return None
        until_s = measure.get("until_s")
        return Window(from_s=measure.get("from_s", 0.0), until_s=math.inf if until_s is None else until_s)

    def holds(self, submit_s: float) -> bool:
        """Return whether a job submitted at this time is measured."""
        return self.from_s <= submit_s < self.until_s

    def counted(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """Keep only the jobs submitted within the window, and their attempts if present."""
        submit = tables["jobs"]["submit"]
        jobs = tables["jobs"][(submit >= self.from_s) & (submit < self.until_s)]
        made = {**tables, "jobs": jobs.reset_index(drop=True)}
        if "attempts" in tables:
            attempts = tables["attempts"]
            made["attempts"] = attempts[attempts["job"].isin(set(jobs["job"]))].reset_index(drop=True)
        return made

    def during(self, tables: Tables, end_s: float) -> dict[str, pd.DataFrame]:
        """Keep jobs, attempts and heartbeats in the window, cut to it. `end_s` replaces missing ends."""
        heartbeats = tables["heartbeats"]
        inside = (heartbeats["t"] >= self.from_s) & (heartbeats["t"] <= self.until_s)
        return {
            **tables,
            "jobs": self._cut(tables["jobs"], "submit", "finish", end_s),
            "attempts": self._cut(tables["attempts"], "start", "end", end_s),
            "heartbeats": heartbeats[inside].reset_index(drop=True),
        }

    def _cut(self, rows: pd.DataFrame, begin: str, end: str, end_s: float) -> pd.DataFrame:
        ends = rows[end].fillna(end_s)
        kept = (rows[begin] < self.until_s) & (ends > self.from_s)
        cut = rows.assign(**{begin: rows[begin].clip(lower=self.from_s), end: ends.clip(upper=self.until_s)})
        return cut[kept].reset_index(drop=True)

    def told(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the entry `measure` of summary.json for the planned jobs.

        A job that waits for another is counted by its earliest submit time; when it is submitted depends on the policy.
        """
        counted = sum(self.holds(job["submit_s"]) for job in jobs)
        waiting = sum(job.get("after") is not None for job in jobs)
        until_s = None if math.isinf(self.until_s) else self.until_s
        return {
            "from_s": self.from_s,
            "until_s": until_s,
            "jobs": counted,
            "jobs_left_out": len(jobs) - counted,
            **({"jobs_that_wait": waiting} if waiting else {}),
        }


def sentence(told: Mapping[str, Any]) -> str:
    """Return a sentence about the measured window for the notes of the table. `told` is from `Window.told`."""
    until_s = told["until_s"]
    span = f"from {told['from_s']:g} s " + ("on" if until_s is None else f"until {until_s:g} s")
    waiting = told.get("jobs_that_wait", 0)
    later = f" Of {waiting} jobs that wait for others, the actual submission counts." if waiting else ""
    return (
        f"Figures are of the {told['jobs']} jobs submitted {span}, whenever they ended; {told['jobs_left_out']} jobs "
        f"are left out. Shares, use and running tasks are of the time {span}, whichever jobs ran.{later}"
    )
