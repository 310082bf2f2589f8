"""Prints what the commands `up`, `status` and `down` show about clusters that stay up."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedbed.cluster.faults import KINDS
from schedbed.deploy.display.display import ENDED
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.service.client import CLUSTER_VARIABLE, TOKEN_VARIABLE, Cluster, connect
from schedbed.deploy.service.cluster_files import ClusterRecord, clusters, has_ended
from schedbed.deploy.service.start import sweep_all
from schedbed.deploy.service.users.quota_ledger import shown_use
from schedbed.deploy.workspace import base_folder, left_behind
from schedbed.tasks.units import format_bytes, format_duration

JOBS_SHOWN = 30  # Number of ended jobs shown; other jobs are always shown.
Json = Mapping[str, Any]


def show_up(record: ClusterRecord, users: int = 0) -> None:
    """Print a new cluster's address, and the most useful commands for it, depending on its number of users."""
    name = record.name
    print(f"cluster {name} is up under {record.policy}: {record.url}, results in {record.out}")
    for door, where in record.doors.items():
        print(f"  {door}: {where}")
    if users:
        print(f"  {users} users with a token: export {CLUSTER_VARIABLE}={record.url} {TOKEN_VARIABLE}=TOKEN")
    print(f"  schedbed submit {name} --app wordcount --input generate=text,size=64MiB --reduces 2 --wait")
    print(f"  schedbed status {name}")
    print(f"  schedbed down {name}", flush=True)


def show_status(name: str | None, *, as_json: bool) -> None:
    """Print the status of one cluster, or of all of this user's, a line each if there are several.

    Also print (unless `as_json`) a line about each that failed or was killed. Raises RunFailed if `name` did.
    """
    name = name or os.environ.get(CLUSTER_VARIABLE) or None
    if name is not None:
        statuses = [_status(connect(name, patience_s=0.0))]
    else:
        up, gone = clusters()
        if gone or left_behind(base_folder()):
            sweep_all()
        statuses = [_status(Cluster(record, patience_s=0.0)) for record in up.values()]
        if not as_json:
            for line in gone.values():
                print(line)
    if as_json:
        print(json.dumps(statuses[0] if name is not None else {"clusters": statuses}))
    elif not statuses:
        print("no cluster is up")
    elif len(statuses) == 1:
        _show_one(statuses[0], Console())
    else:
        Console().print(_overview(statuses))


def _status(cluster: Cluster) -> Json:
    """Return the status of a cluster. If it is shutting down and does not answer, use the data in its record."""
    record = cluster.record
    try:
        return cluster.status()
    except RunFailed:
        if not cluster.is_owner or has_ended(record):
            raise
        about = {"name": record.name, "out": record.out, "policy": record.policy, "machines": record.machines}
        return about | {"state": "ending", "now_s": 0.0, "jobs": [], "users": [], "nodes": []}


def show_down(name: str | None, *, everything: bool, wait: bool) -> None:
    """Shut down one cluster or all, and print the result folders. If `wait`, the jobs end first.

    `everything` also removes what crashed runs left on this host. Raises RunFailed if a cluster had failed
    before.
    """
    console, trouble = Console(), []
    if not everything:
        _end(connect(name), wait, console)
        return
    up, gone = clusters()
    trouble += gone.values()
    for record in up.values():
        try:
            _end(Cluster(record), wait, console)
        except RunFailed as error:
            trouble.append(str(error))
    for line in sweep_all():
        print(line)
    if trouble:
        raise RunFailed("\n".join(trouble))


def _end(cluster: Cluster, wait: bool, console: Console) -> None:
    from schedbed.deploy.results.summary import impossible_rows, load
    from schedbed.deploy.results.table import show

    folder = cluster.down(wait=wait)
    summary = load(folder)
    show(summary, console)
    print(f"cluster {cluster.name} is down. Results: {folder}  (open {folder / 'report.html'})", flush=True)
    if lines := impossible_rows(summary):
        raise RunFailed("\n".join(lines))


def _show_one(status: Json, console: Console) -> None:
    head = f"{status['name']} {status['state']}, {status['policy']} on {status['machines']} machines"
    results = f", results in {status['out']}" if "out" in status else ""
    console.print(f"{head}, up {format_duration(status['now_s'])}{results}", highlight=False)
    if "you" in status:
        jobs, tasks, input_ = shown_use(status["you"]["use"], status["you"]["quota"])
        you = status["you"]["name"]
        console.print(f"{you}: {jobs} jobs, {tasks} tasks, {input_} input", highlight=False, markup=False)
    console.print(_nodes(status["nodes"]))
    if status["users"]:
        console.print(_users(status["users"]))
        console.print(_jobs(status["jobs"]))
    if before := status.get("ended_before", 0):
        console.print(f"and {before:,} jobs that ended before these", highlight=False)


def _overview(statuses: Sequence[Json]) -> Table:
    table = _table("cluster", "state", "policy", "machines", "nodes alive", "jobs", "ended", "up")
    for status in statuses:
        alive = sum(node["state"] == "alive" for node in status["nodes"])
        before = status.get("ended_before", 0)
        ended = before + sum(job["state"] in ENDED for job in status["jobs"])
        table.add_row(
            Text(status["name"]),
            status["state"],
            Text(status["policy"]),
            status["machines"],
            f"{alive} of {len(status['nodes'])}",
            str(before + len(status["jobs"])),
            str(ended),
            format_duration(status["now_s"]),
        )
    return table


def _nodes(nodes: Sequence[Json]) -> Table:
    table = _table("node", "rack", "state", "CPU", "disk", "network", "memory", "running")
    for node in nodes:
        use = [f"{node[key]:.0%}" for key in ("cpu_util", "disk_util", "net_util")]
        running = Text("\n".join(node["running"]))
        table.add_row(
            node["node"], Text(node["rack"]), _state(node), *use, format_bytes(node["memory_bytes"]), running
        )
    return table


def _state(node: Json) -> str:
    """Return a node's state, with a line per fault in force."""
    lines = [node["state"]]
    for fault in node.get("faults", ()):
        lines.append(_held(fault["kind"], fault["left_s"]))
    return "\n".join(lines)


def _held(kind: str, left_s: float | None) -> str:
    """Return text such as `killed by a fault, back in 12 s`; a fault without an end has None as `left_s`."""
    about = KINDS[kind]
    end = "back" if about.hides_replicas else "over"
    rest = "for good" if left_s is None else f"{end} in {left_s:.0f} s"
    return f"{about.held or kind} by a fault, {rest}"


def _users(users: Sequence[Json]) -> Table:
    table = _table("user", "jobs", "running tasks", "share")
    for user in users:
        jobs = ", ".join(f"{count} {state}" for state, count in user["jobs"].items())
        table.add_row(Text(user["user"]), jobs, str(user["running_tasks"]), f"{user['share']:.0%}")
    return table


def users_table(users: Sequence[Json]) -> Table:
    """Return users with quotas, and the used parts unless they are of a file for `schedbed up --users`."""
    table = _table("user", "jobs", "tasks", "input", "own code")
    for user in users:
        quota = user["quota"]
        if "use" in user:
            cells = shown_use(user["use"], quota)
        else:
            cells = [str(quota["jobs"]), str(quota["tasks"]), format_bytes(quota["input_bytes"])]
        table.add_row(Text(user["name"]), *cells, "yes" if user["own_code"] else "no")
    return table


def _jobs(jobs: Sequence[Json]) -> Table:
    table = _table("job", "name", "user", "queue", "state", "maps", "reduces", "since")
    ended = [job for job in jobs if job["state"] in ENDED]
    kept = {job["job"] for job in [*ended[-JOBS_SHOWN:], *(job for job in jobs if job["state"] not in ENDED)]}
    for job in (job for job in jobs if job["job"] in kept):
        took = job["finish_s"] - job["submit_s"] if job["finish_s"] is not None else None
        table.add_row(
            job["job"],
            Text(job["name"]),
            Text(job["user"]),
            Text(job["queue"]),
            Text(f"{job['state']}: {job['reason']}" if job["reason"] else job["state"]),
            f"{job['maps_done']}/{job['maps']}",
            f"{job['reduces_done']}/{job['reduces']}",
            f"{job['submit_s']:.1f} s" + ("" if took is None else f", took {format_duration(took)}"),
        )
    if len(kept) < len(jobs):
        table.add_row(f"and {len(jobs) - len(kept)} that ended before")
    return table


WHOLE = ("cluster", "node", "job", "running", "maps", "reduces", "user")
"""Columns that do not wrap on a narrow terminal."""


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column in WHOLE)
    return table
