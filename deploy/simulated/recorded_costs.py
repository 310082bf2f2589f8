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
    """The amounts of work of the tasks in a recorded run, as plain JSON values.

    `rows` has the amounts of each task, and `means` their means by job and kind. `fetched` has the bytes that
    each reduce of a job fetched, and `worked_s` is the result of the function `worked_s`.
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
    """A cost model with the costs that tasks had in a recorded run, from each task's last successful attempt.

    A task that never succeeded has the mean costs of the job's other tasks of its kind. `extra_s` is a
    dictionary from task id to seconds that are added to the task's CPU time; they may be negative (see
    `fit`).
    """

    def __init__(self, amounts: RecordedAmounts, extra_s: Mapping[str, float] | None = None) -> None:
        self.extra_s = dict(extra_s or {})
        self._amounts = amounts
        self._shares: dict[tuple[str, int], tuple[int, ...]] = {}

    def to_json(self) -> dict[str, Any]:
        """Return the costs as JSON values, from which `from_json` makes equal costs."""
        return {"amounts": asdict(self._amounts), "extra_s": self.extra_s}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RecordedCosts:
        """Return the costs that `to_json` converted to the JSON values `raw`."""
        return RecordedCosts(RecordedAmounts(**raw["amounts"]), raw["extra_s"])

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.map_cost`: return the recorded cost of a map.

        The output is divided among the reduces in proportion to the total bytes that each reduce fetched.
        """
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
        """Implement `CostModel.reduce_cost`: return the recorded cost of a reduce.

        The recorded run has only the total CPU time of a reduce. The estimated CPU time of fetching is
        subtracted. From the rest, the merge receives at most its recorded duration, and the reduce function
        what then remains.
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
        """Change `extra_s` so that tasks take as long in a simulation as they did in the recorded run.

        `replayed` are the attempts of a first simulation with these costs. In live runs tasks also wait for
        resources that the simulation does not model, above all on a busy host.
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
    """Return a dictionary from task id to the run time in s of the task's last successful attempt.

    For a map that the policy cut into parts, the run times of the parts are added. The run time of a reduce
    starts at the end of its shuffle.
    """
    done = useful(attempts)
    began = done["shuffle_end"].fillna(done["start"])
    worked = (done["end"] - began).astype(float).groupby(_whole(done)).sum()
    return {str(task): seconds for task, seconds in worked.items()}


def launch_s(run: RunTables) -> float:
    """Return the median time in s from an attempt's assignment to its first line of code.

    Return 0 if no attempt was launched.
    """
    waits = _launches_s(run)
    return float(waits.median()) if len(waits) else 0.0


def launches_as_in(runs: Iterable[RunTables]) -> Latencies:
    """Return simulation latencies in which each launch takes as long as a random launch recorded in `runs`.

    Launch times must differ: otherwise two maps that start together on a node would both read, then both
    compute, and leave the disk idle. All other latencies have their defaults. Raises ValueError if no
    attempt was launched.
    """
    waits_s = np.sort(np.concatenate([_launches_s(run).to_numpy(float) for run in runs]))
    if not len(waits_s):
        raise ValueError("no attempt was launched in these runs")
    least_s = float(waits_s[0])
    return replace(launches_after(least_s), launch_later_s=tuple(float(wait) - least_s for wait in waits_s))


def launches_after(wait_s: float) -> Latencies:
    """Return latencies for a simulation in which each launch of an attempt takes `wait_s` seconds.

    A launch lasts from the attempt's assignment to its first line of code.
    """
    timing = Timing()
    return Latencies(launch_s=max(0.0, wait_s - timing.decision_s - timing.reply_s), launch_cpu_s=0.0)


def _launches_s(run: RunTables) -> pd.Series:
    """Return the seconds from assignment to the first line of code, for each attempt that was launched."""
    return (run.attempts["start"] - run.attempts["assigned"]).dropna()


def _amounts(attempts: pd.DataFrame, speeds: Mapping[str, float]) -> pd.DataFrame:
    """Return the attempts with the additional columns `cpu`, `sort` and `read`.

    `cpu` is the CPU time in seconds on one emulated core, `sort` the seconds that a reduce merged its input,
    and `read` the input bytes read. `speeds` is a dictionary from node name to core speed.
    """
    usual = fmean(speeds.values())
    speed = attempts["node"].map(speeds).fillna(usual)
    return attempts.assign(
        cpu=attempts["cpu_s"] / speed,
        read=attempts["read_local_bytes"] + attempts["read_remote_bytes"],
        sort=(attempts["sort_end"] - attempts["shuffle_end"]).clip(lower=0.0).fillna(0.0),
    )


def _whole(attempts: pd.DataFrame) -> pd.Series[Any]:
    """Return the task id of each attempt. If a policy cut a map into parts, all parts have the map's id."""
    parent = attempts["split_of"].fillna("")
    return parent.where(parent != "", attempts["task"])


def _unsplit(attempts: pd.DataFrame) -> pd.DataFrame:
    """Return one row of costs per task. The costs of the parts of a map that a policy cut are added."""
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
