"""Builds the status of a cluster that stays up, as JSON values: nodes, users, and all jobs so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedbed.cluster.faults import KINDS, PlannedFault
from schedbed.deploy.display.display import ENDED
from schedbed.tasks.specs import id_key
from schedbed.tasks.workloads.planned import PlannedJob

Json = dict[str, Any]
ENDED_SHOWN = 1000
"""The most ended jobs in a status, so that a status of a cluster that is up for weeks takes no longer."""
WAITING = "waiting"  # Until the job's submit time.


class JobStates:
    """The latest status of each job, even long after its end, when the scheduler core has dropped it."""

    def __init__(self) -> None:
        self._rows: dict[str, Json] = {}

    def take(self, status: Mapping[str, Any]) -> list[str]:
        """Store the jobs of a scheduler core's status. Return those that have ended since the last call."""
        rows = {row["job"]: row for row in status["jobs"]}
        before = {job for job in rows if job in self._rows and self._rows[job]["state"] in ENDED}
        self._rows |= rows
        return [job for job, row in rows.items() if row["state"] in ENDED and job not in before]

    def of(self, planned: PlannedJob) -> Json:
        """Return the latest status of a job. A job that has none yet is `waiting` for its submit time."""
        return self._rows.get(planned.job) or {
            "job": planned.job,
            "name": planned.name,
            "user": planned.user,
            "queue": planned.queue,
            "state": WAITING,
            "maps": planned.maps,
            "maps_done": 0,
            "maps_running": 0,
            "reduces": planned.reduces,
            "reduces_done": 0,
            "reduces_running": 0,
            "submit_s": planned.submit_s,
            "finish_s": None,
            "deadline_s": planned.deadline_s,
            "reason": "",
        }


def picture(
    about: Mapping[str, Any], status: Mapping[str, Any], planned: Sequence[PlannedJob], states: JobStates
) -> Json:
    """Return the status of the whole cluster: its jobs ordered by id, users, nodes and recent decisions.

    Of the ended jobs, only the last ENDED_SHOWN are listed, and `ended_before` is the number of the others.
    """
    jobs = [states.of(job) for job in sorted(planned, key=lambda job: id_key(job.job))]
    ended = [job["job"] for job in jobs if job["state"] in ENDED]
    before = dict.fromkeys(ended[:-ENDED_SHOWN])
    return {
        **about,
        "now_s": status.get("now_s", 0.0),
        "jobs": [job for job in jobs if job["job"] not in before],
        "ended_before": len(before),
        "users": users(jobs),
        "nodes": status["nodes"],
        "recent": status["recent"],
    }


def with_faults(
    nodes: Iterable[Json], in_force: Iterable[tuple[PlannedFault, float | None]], now_s: float
) -> list[Json]:
    """Return the nodes, each with its `faults` in force: `kind`, and `left_s` seconds, None without an end.

    Faults of masters are left out.
    """
    on_nodes = [
        (fault, None if end_s is None else max(0.0, end_s - now_s))
        for fault, end_s in in_force
        if not KINDS[fault.kind].hits_master
    ]
    return [
        {
            **node,
            "faults": [
                {"kind": fault.kind, "left_s": left_s}
                for fault, left_s in on_nodes
                if fault.hits(node["node"])
            ],
        }
        for node in nodes
    ]


def users(jobs: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return, for each user with jobs, their number by state, the running tasks and their share of all."""
    found: dict[str, Json] = {}
    for job in jobs:
        user = found.setdefault(job["user"], {"user": job["user"], "jobs": {}, "running_tasks": 0})
        user["jobs"][job["state"]] = user["jobs"].get(job["state"], 0) + 1
        if job["state"] not in ENDED:
            user["running_tasks"] += job["maps_running"] + job["reduces_running"]
    total = sum(user["running_tasks"] for user in found.values())
    for user in found.values():
        user["share"] = user["running_tasks"] / total if total else 0.0
    return [found[name] for name in sorted(found)]
