"""Conversion of a trace to a scenario of synthetic jobs, whose tasks are equal up to random variation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from schedbed.tasks.specs import Cost, are_one
from schedbed.tasks.traces.fit_cluster import Fit, TraceLoad, demands, fit_cluster, mean_and_variation
from schedbed.tasks.traces.trace import Trace, TraceJob
from schedbed.tasks.workloads.from_trace import Assume, SyntheticJob, assumed, select, synthetic_jobs

LAPTOP = {"nodes": 6, "racks": 2, "node": {"core_speed": 0.2}, "heartbeat": "200ms"}
"""The cluster of a scenario that can run live on a laptop at the scale `LAPTOP_SCALE`."""
LAPTOP_SCALE = 0.02
HOSTS_LOST = "a map's own input host is not kept: blocks are placed by `placement`"
PATHS_LOST = "jobs that read one path read a file each here; `workload: {trace: FILE}` lets them share one"
ALIKE = "tasks of a job are equal: their mean, and `variance` for how much their times differ"


@dataclass(slots=True)
class Conversion:
    """A scenario made from a trace. Iterating over `jobs` also sets `job_count` and `task_count`."""

    name: str
    chosen: list[TraceJob]
    fit: Fit | None
    notes: list[str]
    job_count: int = field(default=0, init=False)
    task_count: int = field(default=0, init=False)

    @property
    def head(self) -> dict[str, Any]:
        """Return all values of the scenario except its jobs. Times and sizes are those of the trace."""
        laptop = self.fit is None
        return {
            "name": self.name,
            "scale": LAPTOP_SCALE if laptop else 1,
            "cluster": dict(LAPTOP) if self.fit is None else self.fit.values(),
            "blocks": {"size": "64MiB", "replication": 3 if self.fit is None else min(3, self.fit.nodes)},
            "policies": self._policies(),
        }

    def _policies(self) -> list[Any]:
        """Return the policies to compare: FIFO, FCFS and EASY if jobs have requested run times."""
        if any(job.requested_s is not None for job in self.chosen):
            return ["fifo", {"easy": {"backfill": False}}, "easy"]
        return ["fifo", "fair", "delay"]

    @property
    def jobs(self) -> Iterator[dict[str, Any]]:
        """Yield each job as an entry of the list `workload.jobs` in the scenario."""
        self.job_count = self.task_count = 0
        names = _names(self.chosen)
        for made in synthetic_jobs(self.chosen, Assume()):
            self.job_count += 1
            self.task_count += len(made.maps) + len(made.reduces)
            yield _job(made, names)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the scenario file: the settings, then one line per job."""
        for key, value in self.head.items():
            yield f"{key}: {json.dumps(value)}"
        yield "workload:"
        yield "  jobs:"
        for job in self.jobs:
            yield f"  - {_flow(job)}"


def conversion(trace: Trace, name: str, jobs: int | None = None, *, fit: bool = False) -> Conversion:
    """Return a scenario of the first `jobs` jobs, for a laptop or, with `fit`, a cluster of the trace's size."""
    chosen, assume = select(trace.jobs, jobs, 0.0, None), Assume()
    losses = [
        *([HOSTS_LOST] if trace.hosts else []),
        *([PATHS_LOST] if any(job.input_path for job in chosen) else []),
        ALIKE,
    ]
    notes = [*trace.warnings, *assumed(chosen, 0, assume), *losses]
    proposed = None
    if fit:
        proposed = fit_cluster(trace, _demands(chosen, assume))
        notes.append(f"cluster: {proposed.why}; `--machines sim` suits clusters larger than this host")
    else:
        notes.append("cluster: a laptop's, not the trace's; --fit-cluster proposes one that fits")
    return Conversion(name, chosen, proposed, notes)


def scenario_of(
    trace: Trace, name: str, jobs: int | None = None, *, fit: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return a scenario's values, and notes on assumptions and lost data; see `conversion`."""
    made = conversion(trace, name, jobs, fit=fit)
    return {**made.head, "workload": {"jobs": list(made.jobs)}}, made.notes


def trace_demands(trace: Trace) -> TraceLoad:
    """Return the total load of the jobs of a trace, after conversion to synthetic jobs with default assumptions."""
    assume = Assume()
    return _demands(select(trace.jobs, None, 0.0, None), assume)


def _demands(jobs: Sequence[TraceJob], assume: Assume) -> TraceLoad:
    return demands(synthetic_jobs(jobs, assume), (job.duration_s for job in jobs), assume.io_rate)


def _flow(values: Mapping[str, Any]) -> str:
    """Return one line of YAML: JSON with unquoted keys."""
    return "{" + ", ".join(f"{key}: {_flow_value(value)}" for key, value in values.items()) + "}"


def _flow_value(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    return _flow(value) if isinstance(value, dict) else json.dumps(value)


def _names(jobs: Sequence[TraceJob]) -> dict[int, str]:
    """Return unique names of the jobs that others wait for, by number."""
    awaited, count = {job.after for job in jobs} - {None}, Counter(job.name for job in jobs)
    return {
        job.number: job.name if count[job.name] == 1 else f"{job.name} #{job.number}"
        for job in jobs
        if job.number is not None and job.number in awaited
    }


def _job(job: SyntheticJob, names: Mapping[int, str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": job.name if job.number is None else names.get(job.number, job.name),
        "app": "synthetic",
        "user": job.user,
        "queue": job.queue,
        "priority": str(job.priority),
        "submit": f"{job.submit_s:.3f}s",
    }
    if job.deadline_s is not None:
        values["deadline"] = f"{job.deadline_s:.3f}s"
    if job.requested_s is not None:
        values["requested"] = f"{job.requested_s:.3f}s"
    if job.after is not None and job.after in names:
        values["after"] = names[job.after]
        values |= {"think": f"{job.think_s:.3f}s"} if job.think_s else {}
    values |= {"maps": len(job.maps), "map": _phase(job.maps), "reduces": len(job.reduces)}
    return values | ({"reduce": _phase(job.reduces)} if job.reduces else {})


def _phase(costs: Sequence[Cost]) -> dict[str, Any]:
    """Return the mean cost of a job's maps or reduces, and their random variation."""
    first = costs[0]
    if are_one(costs):
        mean_s, variation, read, written, lasted = (
            first.cpu_s,
            0.0,
            first.read_bytes,
            first.write_bytes,
            first.duration_s,
        )
    else:
        mean_s, variation = mean_and_variation(costs)
        read, written = (_mean(cost.read_bytes for cost in costs), _mean(cost.write_bytes for cost in costs))
        known = [cost.duration_s for cost in costs if cost.duration_s is not None]
        lasted = sum(known) / len(known) if len(known) == len(costs) else None
    values = {
        "cpu": f"{mean_s:.3f}s",
        "duration": None if lasted is None else f"{lasted:.3f}s",
        "read": read,
        "write": written,
        "variance": round(min(variation, 10.0), 3),
    }
    return {key: value for key, value in values.items() if value}


def _mean(values: Iterable[int]) -> int:
    found = list(values)
    return round(sum(found) / len(found))
