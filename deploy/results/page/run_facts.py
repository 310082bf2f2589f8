"""The facts about a policy's first repeat that explain why it did better or worse than another policy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedbed.deploy.results.measures.coded import Coded
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals
from schedbed.deploy.results.measures.wait_causes import waits_for_data
from schedbed.deploy.results.measures.waits import SIZES, sizes_of
from schedbed.deploy.results.metrics import RunTables

if TYPE_CHECKING:
    import pandas as pd

GROUPS_MAX = 20
"""The number of the biggest groups of jobs with the same name that others may have waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts about one policy in one repeat that explanations use.

    `sizes` has each size class's share of jobs. `map_s` is the mean duration of successful maps, None without
    any. `waits_for_data` is how often a job began to wait for a node with its data. `held` has `held_slots`.
    """

    sizes: Mapping[str, float]
    map_s: float | None
    waits_for_data: int
    held: Mapping[str, Mapping[str, float]]

    @staticmethod
    def of(run: RunTables) -> RunFacts:
        """Return the facts about one policy in one repeat, whose tables are `run`."""
        shares = _size_shares(run)
        return RunFacts(
            sizes=shares,
            map_s=_map_s(run),
            waits_for_data=_waits_for_data(run),
            held=held_slots(run, list(shares)),
        )


def _size_shares(run: RunTables) -> dict[str, float]:
    jobs = run.counted.jobs
    sizes = Counter(sizes_of(jobs))
    return {size: sizes[size] / len(jobs) for size in SIZES if size in sizes}


def _map_s(run: RunTables) -> float | None:
    attempts = run.counted.attempts
    maps = attempts[(attempts["kind"] == "map") & (attempts["state"] == "succeeded")]
    return float((maps["end"] - maps["start"]).mean()) if len(maps) else None


def _waits_for_data(run: RunTables) -> int:
    data = run.tables["decisions"]
    return int((waits_for_data(data["reason"]) & (data["answer"] == "skip").to_numpy(bool)).sum())


def held_slots(run: RunTables, sizes: list[str]) -> dict[str, dict[str, float]]:
    """Return, by size class, the shares of used slots by job name while jobs of that class wait for a first
    slot.

    Names are `common_names`, and only the `GROUPS_MAX` that occupied slots longest in the run are included.
    """
    jobs = run.jobs[run.jobs["start"].notna()]
    size = np.array(sizes_of(jobs), str)
    owners = Coded.mapped(run.attempts["job"], common_names(run.jobs))
    held = Intervals.of(run.attempts.assign(start=run.attempts["assigned"]), owners, run.end_s)
    areas = {name: held.running(name).integrator() for name in (None, *held.groups()[:GROUPS_MAX])}
    made: dict[str, dict[str, float]] = {}
    for each in sizes:
        mine = size == each
        since, until = jobs["submit"].to_numpy(float)[mine], jobs["start"].to_numpy(float)[mine]
        seconds = {name: float((area(until) - area(since)).sum()) for name, area in areas.items()}
        total_s = seconds.pop(None)
        made[each] = {str(name): held_s / total_s for name, held_s in seconds.items()} if total_s > 0 else {}
    return made


def common_names(jobs: pd.DataFrame) -> dict[str, str]:
    """Return each job's name without its number at the end, unless more than half of the jobs would share it."""
    full = dict(zip(texts_of(jobs["job"]), texts_of(jobs["name"].astype(str)), strict=True))
    without = re.compile(r"[-_ ]?\d+$").sub
    common = {job: without("", name) or name for job, name in full.items()}
    uses = Counter(common.values())
    return {job: name if 2 * uses[name] <= len(full) else full[job] for job, name in common.items()}
