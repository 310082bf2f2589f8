"""Task costs from the attempts table of a recorded run. The command `whatif` simulates with these costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.deploy.results.metrics import RunTables, useful
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.task_costs import HANDLING, ScenarioCosts, fetching
from schedbed.scheduler.simulate.setup import CpuFactors, Timing
from schedbed.tasks.specs import JobSpec, TaskKind, task_id

if TYPE_CHECKING:
    import pandas as pd

MEANS = ("cpu", "read", "output_bytes", "spill_bytes", "sort", "shuffle_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAmounts:
    """The amounts of work of tasks in a recorded run, as JSON: of each, and means by job and kind.

    `fetched` has the bytes that each reduce of a job fetched.
    """

    rows: Mapping[str, Mapping[str, Any]]
    means: Mapping[str, Mapping[str, Mapping[str, Any]]]
    fetched: Mapping[str, Sequence[int]]
    worked_s: Mapping[str, float]
    core_speed: float

    @classmethod
    def of(cls, run: RunTables) -> RecordedAmounts:
        """Return the amounts in the tables of a recorded run."""
        speeds = {str(node["node"]): float(node["core_speed"]) for node in run.nodes}
        good = _unsplit(_amounts(useful(run.attempts), speeds))
        means: dict[str, dict[str, Any]] = {}
        by_kind: dict[Any, Any] = good.groupby(["job", "kind"])[list(MEANS)].mean().to_dict("index")
        for (job, kind), mean in by_kind.items():
            means.setdefault(str(job), {})[str(kind)] = mean
        reduces = good[good["kind"] == TaskKind.REDUCE]
        fetched = reduces.sort_values("task").groupby("job")["shuffle_bytes"]
        return cls(
            rows={row["task"]: {name: row[name] for name in MEANS} for row in good.to_dict("records")},
            means=means,
            fetched={str(job): [int(amount) for amount in amounts] for job, amounts in fetched},
            worked_s=worked_s(run.attempts),
            core_speed=fmean(speeds.values()),
        )


class RecordedCosts:
    """A cost model with the costs of a recorded run, from each task's last successful attempt.

    A task that never succeeded has the mean of its job's others of the kind. `extra_s`, perhaps negative, is
    added to a task's CPU time (see `fit`).
    """

    def __init__(self, amounts: RecordedAmounts, extra_s: Mapping[str, float] | None = None) -> None:
        self.extra_s = dict(extra_s or {})
        self._amounts = amounts
        self._shares: dict[tuple[str, int], tuple[int, ...]] = {}

    def to_json(self) -> dict[str, Any]:
        return {"amounts": asdict(self._amounts), "extra_s": self.extra_s}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RecordedCosts:
        """Undo `to_json`."""
        return RecordedCosts(RecordedAmounts(**raw["amounts"]), raw["extra_s"])

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.map_cost`, with output divided like the total bytes that reduces fetched."""
        row = self._row(job, TaskKind.MAP, index)
        output = round(row["output_bytes"])
        return TaskCost(
            cpu_s=max(0.0, row["cpu"] + self._extra_s(job, TaskKind.MAP, index)),
            read_bytes=min(round(row["read"]), job.splits[index].length),
            output_bytes=output,
            spill_bytes=round(row["spill_bytes"]) if job.reduces else 0,
            partitions=self._partitions(job, output) if job.reduces else None,
        )

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.reduce_cost`.

        Only the total CPU time was recorded. Fetching, estimated, is subtracted; of the rest, the merge gets
        at most its recorded duration, and the function what remains.
        """
        row = self._row(job, TaskKind.REDUCE, index)
        core_speed = self._amounts.core_speed
        fetching_s = HANDLING.fetching_s(job.maps, row["shuffle_bytes"]) / core_speed
        left_s = max(0.0, row["cpu"] - fetching_s)
        sort_cpu_s = min(left_s, row["sort"])
        extra_s = self._extra_s(job, TaskKind.REDUCE, index)
        cost = TaskCost(
            cpu_s=max(0.0, left_s - sort_cpu_s + extra_s),
            sort_cpu_s=sort_cpu_s,
            output_bytes=round(row["output_bytes"]),
        )
        return fetching(cost, core_speed, min(1.0, row["cpu"] / fetching_s) if fetching_s else 0.0)

    def fit(self, replayed: pd.DataFrame) -> None:
        """Change `extra_s` so that tasks take as long as in the recorded run.

        `replayed` are attempts simulated with these costs. Live tasks also wait for resources that the
        simulation does not model, above all on a busy host.
        """
        lasted_s = worked_s(replayed)
        for task, recorded_s in self._amounts.worked_s.items():
            if task in lasted_s:
                self.extra_s[task] = self.extra_s.get(task, 0.0) + recorded_s - lasted_s[task]

    def _extra_s(self, job: JobSpec, kind: TaskKind, index: int) -> float:
        return self.extra_s.get(task_id(job.job, kind, index), 0.0) if self.extra_s else 0.0

    def _row(self, job: JobSpec, kind: TaskKind, index: int) -> Mapping[str, Any]:
        row = self._amounts.rows.get(task_id(job.job, kind, index))
        return row or self._amounts.means.get(job.job, {}).get(str(kind)) or dict.fromkeys(MEANS, 0.0)

    def _partitions(self, job: JobSpec, output: int) -> tuple[int, ...] | None:
        weights = self._amounts.fetched.get(job.job, [])
        if len(weights) != job.reduces or len(set(weights)) < 2:
            return None
        found = self._shares.get((job.job, output))
        if found is None:
            found = self._shares[job.job, output] = _shared(output, weights)
        return found


def worked_s(attempts: pd.DataFrame) -> dict[str, float]:
    """Return the run time in s of each task's last successful attempt, summed over parts of a cut map.

    The run time of a reduce starts at the end of its shuffle.
    """
    done = useful(attempts)
    began = done["shuffle_end"].fillna(done["start"])
    worked = (done["end"] - began).astype(float).groupby(_whole(done)).sum()
    return {str(task): seconds for task, seconds in worked.items()}


def launch_s(run: RunTables) -> float:
    """Return the median time in s from assignment to the first line of code, 0 without a launch."""
    waits = _launches_s(run)
    return float(waits.median()) if len(waits) else 0.0


def launches_as_in(runs: Iterable[RunTables]) -> Latencies:
    """Return latencies in which each launch takes as long as a random one recorded in `runs`.

    Launch times must differ: otherwise two maps that start together on a node would both read, then both
    compute, and leave the disk idle. Raises ValueError without a launch.
    """
    waits_s = np.sort(np.concatenate([_launches_s(run).to_numpy(float) for run in runs]))
    if not len(waits_s):
        raise ValueError("no attempt was launched in these runs")
    least_s = float(waits_s[0])
    return replace(launches_after(least_s), launch_later_s=tuple(float(wait) - least_s for wait in waits_s))


def launches_after(wait_s: float) -> Latencies:
    """Return latencies with `wait_s` seconds from assignment to the first line of code."""
    timing = Timing()
    return Latencies(launch_s=max(0.0, wait_s - timing.decision_s - timing.reply_s), launch_cpu_s=0.0)


def _launches_s(run: RunTables) -> pd.Series:
    """Return launched attempts' seconds from assignment to the first line of code."""
    return (run.attempts["start"] - run.attempts["assigned"]).dropna()


def _amounts(attempts: pd.DataFrame, speeds: Mapping[str, float]) -> pd.DataFrame:
    """Add the columns `cpu` (seconds on one emulated core), `sort` (seconds of merging) and `read` (bytes)."""
    usual = fmean(speeds.values())
    speed = attempts["node"].map(speeds).fillna(usual)
    return attempts.assign(
        cpu=attempts["cpu_s"] / speed,
        read=attempts["read_local_bytes"] + attempts["read_remote_bytes"],
        sort=(attempts["sort_end"] - attempts["shuffle_end"]).clip(lower=0.0).fillna(0.0),
    )


def _whole(attempts: pd.DataFrame) -> pd.Series[Any]:
    """Return each attempt's task; the parts of a map have the map's id."""
    parent = attempts["split_of"].fillna("")
    return parent.where(parent != "", attempts["task"])


def _unsplit(attempts: pd.DataFrame) -> pd.DataFrame:
    """Return a row of costs per task, with those of a map's parts added."""
    whole = attempts.assign(task=_whole(attempts))
    return whole.groupby(["job", "kind", "task"], as_index=False)[list(MEANS)].sum()


def _shared(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Return `total` divided into whole numbers in proportion to the weights."""
    all_, done, edge = sum(weights), 0, 0
    parts: list[int] = []
    for weight in weights:
        done += weight
        parts.append(total * done // all_ - edge)
        edge = total * done // all_
    return tuple(parts)


# The inputs that all simulated runs of one command share.


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputs:
    """The inputs that all simulated runs of one command share, as for `setup_of`."""

    scenario: ResolvedScenario
    costs: ScenarioCosts | RecordedCosts
    latencies: Latencies
    cpu_factors: CpuFactors
    as_live: bool
