"""The costs of tasks in the simulator, as declared by jobs, recorded in traces, or measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import mean
from typing import Any

from schedbed.cluster.virtual.node_model import TaskCost
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.appkit.cost_law import AppCosts
from schedbed.tasks.mapper import SORT_BUFFER_BYTES
from schedbed.tasks.own.program import FILES
from schedbed.tasks.specs import Cost, JobSpec
from schedbed.tasks.spill import buffer_bytes
from schedbed.tasks.workloads.planned import PlannedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingCosts:
    """The CPU time that live tasks use to move data and to start, in core-seconds of the host.

    It was measured with synthetic tasks that compute nothing, on emulated cores of 0.1 host cores. What a
    synthetic task declares includes it.
    """

    attempt_s: float = 0.0033  # from the fork to the first line of code
    read_byte_s: float = 1.0e-9
    written_byte_s: float = 0.7e-9  # of an output file
    spilled_byte_s: float = 3.3e-9  # of a map output that reduces fetch
    fetch_s: float = 0.001  # per map output, including the wait for it
    fetched_byte_s: float = 1.4e-9

    def map_s(self, cost: Cost, *, spills: bool) -> float:
        """Return a map's host core-seconds to start and move data. Output for reduces costs more than a file."""
        written_byte_s = self.spilled_byte_s if spills else self.written_byte_s
        return self.attempt_s + self.read_byte_s * cost.read_bytes + written_byte_s * cost.write_bytes

    def shuffle_s(self, maps: int, fetched_bytes: float) -> float:
        """Return a reduce's host core-seconds until all is fetched."""
        return self.attempt_s + self.fetching_s(maps, fetched_bytes)

    def fetching_s(self, maps: int, fetched_bytes: float) -> float:
        """Return the host core-seconds of fetching from `maps` outputs."""
        return self.fetch_s * maps + self.fetched_byte_s * fetched_bytes


HANDLING = MovingCosts()


def fetching(cost: TaskCost, core_speed: float, share: float = 1.0) -> TaskCost:
    """Add the share `share` of fetching's CPU time to a reduce's cost, unless its duration is known.

    `core_speed` is that of the reduce's emulated core, as a share of a host core.
    """
    if cost.duration_s is not None:
        return cost
    return replace(
        cost,
        fetch_cpu_s=share * HANDLING.fetch_s / core_speed,
        fetched_byte_cpu_s=share * HANDLING.fetched_byte_s / core_speed,
    )


def costs_of(scenario: ResolvedScenario, measured: Mapping[str, AppCosts] | None = None) -> ScenarioCosts:
    """Return the cost model that the scenario's key `simulate.costs` selects.

    `measured` has cost laws, by job, that replace declared costs. Applications without declared costs, with
    `profile` all, are measured on this host, which takes seconds; a user's own are kept in the profile store.
    Raises BadInput if one fails on a sample.
    """
    apps: dict[str, AppCosts] = {}
    for job in scenario.jobs:
        if job.app == "synthetic":
            continue
        known = app_of(job).costs
        if measured and job.job in measured:
            apps[job.job] = measured[job.job]
        elif known is None or scenario.simulate.costs == "profile":
            apps[job.job] = measured_law(scenario, job)
        else:
            apps[job.job] = known
    core_speed = mean(node.core_speed for node in scenario.cluster.nodes)
    return ScenarioCosts(
        apps,
        core_speed,
        timed=scenario.simulate.costs == "trace",
        shuffles=scenario.framework.recorded_shuffle,
    )


def measured_law(scenario: ResolvedScenario, job: PlannedJob) -> AppCosts:
    """Return a job's cost law, measured on a sample here. Raises BadInput if the application fails on it."""
    if FILES in job.params:
        from schedbed.deploy.simulated.own_costs import law_of_own

        return law_of_own(scenario, job)
    from schedbed.deploy.simulated.measure_apps import measure

    return measure(job, scenario.input(job.input) if job.input else None, scenario.seed)


class ScenarioCosts:
    """The cost model of a scenario: declared costs of synthetic jobs, and cost laws of others (`apps`, by
    job).

    With `timed`, tasks take the durations in a recorded trace; with `shuffles`, reduces also its shuffle
    times. A law's CPU time is converted from the host to an emulated core.
    """

    is_as_declared = True  # Tasks of a job whose declared cost is the same have the same cost.

    def __init__(
        self, apps: Mapping[str, AppCosts], core_speed: float, *, timed: bool = False, shuffles: bool = False
    ) -> None:
        self._apps, self._core_speed, self._timed = apps, core_speed, timed
        self._shuffles = shuffles
        self._specified: dict[tuple[Cost, int, int], TaskCost] = {}
        # The same costs by `id`, which is a faster key. The objects are kept, so that no `id` is used again.
        self._seen: dict[tuple[int, int, int], tuple[Cost, TaskCost]] = {}
        self._maps: dict[tuple[str, int], TaskCost] = {}
        self._shuffled: dict[str, int] = {}
        self._reduces: dict[str, TaskCost] = {}

    def to_json(self) -> dict[str, Any]:
        """Return the cost laws as JSON values, for `laws_from_json`."""
        jobs: dict[AppCosts, list[str]] = {}
        for job, law in self._apps.items():
            jobs.setdefault(law, []).append(job)
        return {"laws": [[asdict(law), names] for law, names in jobs.items()]}

    def map_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.map_cost` with the map's declared cost, or with its job's cost law."""
        if job.map_costs:
            cost, spills = job.map_costs[index], job.reduces > 0
            seen = self._seen.get((id(cost), 0, spills))
            if seen is None:
                seen = self._seen[id(cost), 0, spills] = cost, self._map_of(cost, spills=spills)
            return seen[1]
        length = job.splits[index].length
        found = self._maps.get((job.job, length))
        if found is None:
            found = self._maps[job.job, length] = self._map(job, length)
        return found

    def reduce_cost(self, job: JobSpec, index: int) -> TaskCost:
        """Implement `CostModel.reduce_cost` with the reduce's declared cost, or with its job's cost law."""
        if job.reduce_costs:
            cost, fetched = job.reduce_costs[index], self._fetched(job)
            seen = self._seen.get((id(cost), job.maps, fetched))
            if seen is None:
                found = self._reduce_of(cost, job.maps, fetched)
                seen = self._seen[id(cost), job.maps, fetched] = cost, found
            return seen[1]
        if job.job not in self._apps:
            return FREE
        found = self._reduces.get(job.job)
        if found is None:
            found = self._reduces[job.job] = self._reduce(job)
        return found

    def _map_of(self, cost: Cost, *, spills: bool) -> TaskCost:
        found = self._specified.get((cost, 0, spills))
        if found is None:
            moving_s = HANDLING.map_s(cost, spills=spills)
            found = self._specify(cost, max(self._host(cost), moving_s))
            self._specified[cost, 0, spills] = found
        return found

    def _reduce_of(self, cost: Cost, maps: int, fetched: int) -> TaskCost:
        found = self._specified.get((cost, maps, fetched))
        if found is None:
            left_s = self._host(cost) - HANDLING.shuffle_s(maps, fetched)
            write_s = HANDLING.written_byte_s * cost.write_bytes
            found = fetching(self._specify(cost, max(left_s, write_s)), self._core_speed)
            self._specified[cost, maps, fetched] = found
        return found

    def _host(self, cost: Cost) -> float:
        return cost.cpu_s * self._core_speed

    def _specify(self, cost: Cost, host_s: float) -> TaskCost:
        return TaskCost(
            cpu_s=host_s / self._core_speed,
            read_bytes=cost.read_bytes,
            output_bytes=cost.write_bytes,
            merges=False,
            duration_s=cost.duration_s if self._timed else None,
            shuffle_s=cost.shuffle_s if self._timed and self._shuffles else None,
        )

    def _fetched(self, job: JobSpec) -> int:
        """Return the number of bytes that each reduce of a synthetic job fetches."""
        known = self._shuffled.get(job.job)
        if known is None:
            known = sum(cost.write_bytes for cost in job.map_costs) // job.reduces
            self._shuffled[job.job] = known
        return known

    def _map(self, job: JobSpec, length: int) -> TaskCost:
        if job.job not in self._apps:
            return FREE
        law = self._apps[job.job]
        work, rate = app_of(job).work_of(job.params, length, job.maps), self._core_speed
        output = law.map_output.of(work)
        buffer = buffer_bytes(job.params.get("sort_buffer", SORT_BUFFER_BYTES), job.map_demand.memory_bytes)
        # Output beyond the buffer is written twice: as spills, and as the merged output.
        spills = 2 if job.reduces and output > buffer else 1
        return TaskCost(
            cpu_s=(law.map_start_s + law.map_cpu_s * work) / rate,
            sort_cpu_s=law.map_sort_s * output / rate,
            read_bytes=length,
            output_bytes=round(output),
            spill_bytes=round(spills * output) if job.reduces else 0,
            records_in=round(law.map_records * work),
            core_speed=rate,
        )

    def _reduce(self, job: JobSpec) -> TaskCost:
        law = self._apps[job.job]
        work = sum(app_of(job).work_of(job.params, split.length, job.maps) for split in job.splits)
        rate = self._core_speed
        fetched = sum(self.map_cost(job, index).output_bytes for index in range(job.maps)) / job.reduces
        cost = TaskCost(
            cpu_s=(law.reduce_start_s + law.reduce_cpu_s * fetched) / rate,
            sort_cpu_s=law.reduce_sort_s * fetched / rate,
            output_bytes=round(law.output.of(work) / job.reduces),
            core_speed=rate,
        )
        return fetching(cost, rate)


def laws_from_json(raw: Mapping[str, Any]) -> dict[str, AppCosts]:
    """Return the cost laws by job, from `ScenarioCosts.to_json`."""
    return {job: AppCosts.from_json(law) for law, jobs in raw["laws"] for job in jobs}


FREE = TaskCost()
"""The cost of the tasks of a synthetic job that declares none."""
