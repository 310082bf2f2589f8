"""The metrics of one run (one policy in one repeat), computed from its tables by pure functions.

Times are seconds since the run's start, sizes bytes, CPU times core-seconds of the host. A metric that cannot
be computed, such as the completion time of no job, is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures import waits
from schedbed.deploy.results.measures.coded import Coded, places_of
from schedbed.deploy.results.measures.heartbeat_spans import HeartbeatSpans
from schedbed.deploy.results.measures.row_values import texts_of
from schedbed.deploy.results.measures.series import Intervals, active_spans, active_users, share_ratios
from schedbed.deploy.results.measures.wait_causes import job_time, task_causes
from schedbed.deploy.results.measures.window import Window

if TYPE_CHECKING:
    import pandas as pd

LOCALITIES = ("node", "rack", "off")
NO_LOCATION = "none"
"""The locality of a map whose input has no location."""
RESOURCES = ("cpu", "disk", "network")
UTIL_COLUMN = {"cpu": "cpu_util", "disk": "disk_util", "network": "net_util"}
NAN = float("nan")
ENDS = (("jobs", "finish"), ("jobs", "submit"), ("attempts", "end"), ("heartbeats", "t"))
"""The tables and columns of which one contains the latest time of a run."""
USED = ["task", "kind", "locality", "assigned", "start", "end", "state", "length", "cpu_s", "shuffle_end"]
"""The columns of attempts whose results were used that some metric reads. A copy of all would be large."""


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of one run, and the facts needed to compute its metrics.

    `isolated_s` maps each job to the seconds it takes alone on the cluster, `recorded_s` to those that it took when
    it was recorded under this policy, `guarantees` each queue to the share that it is promised. `window` is None if
    all is measured.
    """

    policy: str
    repeat: int
    tables: Mapping[str, pd.DataFrame]
    nodes: tuple[Mapping[str, Any], ...]
    isolated_s: Mapping[str, float] = field(default_factory=dict)
    recorded_s: Mapping[str, float] = field(default_factory=dict)
    guarantees: Mapping[str, float] = field(default_factory=dict)
    window: Window | None = None  # The measured part; None for the whole run.

    @property
    def jobs(self) -> pd.DataFrame:
        return self.tables["jobs"]

    @property
    def attempts(self) -> pd.DataFrame:
        return self.tables["attempts"]

    @property
    def heartbeats(self) -> pd.DataFrame:
        return self.tables["heartbeats"]

    @property
    def counted(self) -> RunTables:
        """Return the tables with only the jobs that were submitted within the measured window, and their attempts."""
        return self if self.window is None else replace(self, tables=self.window.counted(self.tables))

    @property
    def during(self) -> RunTables:
        """Return the tables with only the rows that overlap with the measured window, their times cut to the window."""
        if self.window is None:
            return self
        return replace(self, tables=self.window.during(self.tables, self.end_s))

    @property
    def slots(self) -> int:
        """Return the cluster's number of map and reduce slots."""
        return sum(int(node["map_slots"]) + int(node["reduce_slots"]) for node in self.nodes)

    @property
    def end_s(self) -> float:
        """Return the run's `latest_s`."""
        return latest_s(lambda table, column: self.tables[table][column])


def latest_s(column_of: Callable[[str, str], pd.Series]) -> float:
    """Return the latest time in the columns of `ENDS`, or 0 without a time."""
    ends = [column_of(*place).max() for place in ENDS]
    return float(max((end for end in ends if end == end), default=0.0))


def select(
    tables: Mapping[str, pd.DataFrame],
    nodes: list[dict[str, Any]],
    policy: str,
    repeat: int,
    isolated_s: Mapping[str, float] | None = None,
    window: Window | None = None,
) -> RunTables:
    """Return the rows of one policy and repeat. In columns of integers, a missing value becomes 0."""
    mine: dict[str, pd.DataFrame] = {}
    for name, data in tables.items():
        own = (data["policy"] == policy) & (data["repeat"] == repeat)
        part = data if own.all() else data[own].reset_index(drop=True)
        holey = [column for column in part.columns if part[column].dtype == "Int64"]
        mine[name] = part.assign(**{column: part[column].fillna(0).astype("int64") for column in holey})
    return RunTables(policy, repeat, mine, tuple(nodes), isolated_s or {}, window=window)


def measure(run: RunTables) -> dict[str, Any]:
    """Return all metrics as nested dictionaries with the keys of summary.json, for what `measures.window` says."""
    return joined(measure_waits(run), measure_others(run))


def joined(waits_of: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `measure` from those of `measure_waits` and `measure_others`."""
    first = {name: others[name] for name in ("makespan_s", "completion_s")}
    return {**first, **waits_of, **others}  # A key keeps its first place.


def measure_waits(run: RunTables) -> dict[str, Any]:
    """Return those metrics of a run that divide the waits of tasks by cause, which takes most of the time."""
    counted, tasks = run.counted, _task_times(run)
    return {
        "wait_s": _waiting(counted.jobs, tasks),
        "time_s": job_time(counted.jobs, tasks.first, tasks.causes, useful(run.attempts[USED])),
    }


def measure_others(run: RunTables) -> dict[str, Any]:
    """Return all metrics of a run that `measure_waits` does not return."""
    counted, during = run.counted, run.during
    used = useful(counted.attempts[USED])
    return {
        "makespan_s": makespan(counted.jobs),
        "completion_s": completion(counted.jobs),
        "slowdown": slowdown(counted.jobs, run.isolated_s),
        "jobs": job_states(counted.jobs),
        "locality": locality(counted.attempts, used),
        "fair_share_ratio": fairness(during),
        "deadlines": deadlines(counted.jobs, run.end_s),
        "utilisation": utilisation(during.heartbeats),
        "concurrency": concurrency(during),
        "slots_busy": slots_busy(during),
        "busiest": busiest(during),
        "waste_cpu_s": waste_cpu(counted.attempts, used),
        "heartbeat_service_s": heartbeat_service(during.heartbeats),
        "per_queue": _with_guarantees(
            by_group("queue", counted.jobs, counted.attempts, used, run.end_s), run.guarantees
        ),
        "per_user": by_group("user", counted.jobs, counted.attempts, used, run.end_s),
        **({"energy_wh": energy_wh(run)} if any(node.get("busy_watts") for node in run.nodes) else {}),
        **({"record_error": record_error(counted.jobs, run.recorded_s)} if run.recorded_s else {}),
    }


def makespan(jobs: pd.DataFrame) -> dict[str, Any]:
    """Return the seconds from the first submission to the last finish, of all jobs and of each user's."""
    by_user = {str(user): _span(rows) for user, rows in jobs.groupby("user", sort=True)}
    return {"all": _span(jobs), "per_user": by_user}


def completion(jobs: pd.DataFrame) -> dict[str, Any]:
    """Return the `waits.grouped` times from submission to finish of successful jobs."""
    done = jobs[jobs["state"] == "succeeded"]
    return waits.grouped(done, (done["finish"] - done["submit"]).to_numpy(float))


def slowdown(jobs: pd.DataFrame, isolated_s: Mapping[str, float]) -> dict[str, Any]:
    """Return the `waits.grouped` `slowdowns` of successful jobs."""
    return waits.grouped(jobs[jobs["state"] == "succeeded"], slowdowns(jobs, isolated_s))


def slowdowns(jobs: pd.DataFrame, isolated_s: Mapping[str, float]) -> np.ndarray:
    """Return completion time / time alone, at least 1, of each successful job, or NaN if that is unknown."""
    done = jobs[jobs["state"] == "succeeded"]
    alone_s = done["job"].map(isolated_s).to_numpy(float) if len(done) else np.zeros(0)
    return np.maximum(1.0, (done["finish"] - done["submit"]).to_numpy(float) / alone_s)


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """The launched tasks of a run (`waits.first_assignments`), and their waits in seconds: in all, and by cause."""

    first: pd.DataFrame
    waited: np.ndarray
    causes: Mapping[str, np.ndarray]


def _task_times(run: RunTables) -> TaskTimes:
    """Return the launched tasks with their waits, also of unmeasured jobs, which occupied slots others waited for."""
    slots = {kind: sum(int(node[f"{kind}_slots"]) for node in run.nodes) for kind in ("map", "reduce")}
    jobs, attempts = run.jobs, run.attempts
    first = waits.first_assignments(jobs, attempts)
    causes = task_causes(jobs, attempts, run.tables["decisions"], slots, run.end_s, first)
    return TaskTimes(first, waits.task_waits(first), causes)


def _waiting(counted: pd.DataFrame, tasks: TaskTimes) -> dict[str, Any]:
    """Return the `spread` of the waits of the jobs in `counted`, and of their tasks, with the means by cause.

    A job waits from submission to first launch, a task from runnable to assigned.
    """
    place = places_of(counted["job"], tasks.first["job"])

    def of(rows: np.ndarray) -> dict[str, Any]:
        means = {cause: waits.mean_of(seconds[rows]) for cause, seconds in tasks.causes.items()}
        return waits.spread(tasks.waited[rows]) | {"causes": means}

    def by(groups: Mapping[str, np.ndarray]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, jobs in groups.items():
            mine = np.zeros(len(counted) + 1, bool)
            mine[jobs] = True
            made[name] = of(np.flatnonzero(mine[place]))
        return made

    users, sizes = Coded.of(counted["user"]).rows(), waits.size_rows(counted)
    of_tasks = of(np.flatnonzero(place >= 0)) | {"per_user": by(users), "per_size": by(sizes)}
    return {"jobs": waits.grouped(counted, waits.job_waits(counted)), "tasks": of_tasks}


def by_group(
    column: str, jobs: pd.DataFrame, attempts: pd.DataFrame, used: pd.DataFrame, end_s: float
) -> dict[str, Any]:
    """Return the figures of each value of the jobs' `column`, `queue` or `user`. `used`: the result of `useful`.

    `share_held` is the group's part of all running attempts, over the time in which it had an unfinished job.
    """
    names = dict(zip(texts_of(jobs["job"]), texts_of(jobs[column]), strict=True))
    groups = Coded.mapped(attempts["job"], names)
    running = Intervals.of(attempts, groups, end_s)
    all_until, is_used = running.running().integrator(), attempts.index.isin(used.index)
    found: dict[str, Any] = {}
    for name, rows in Coded.of(jobs[column]).rows().items():
        mine, own = jobs.iloc[rows], groups.is_name(name)
        spans = np.array(active_spans(mine, end_s)).T
        held, whole = (
            np.diff(until(spans), axis=0).sum() for until in (running.running(name).integrator(), all_until)
        )
        found[name] = {
            "jobs": float(len(mine)),
            "succeeded": job_states(mine)["succeeded"],
            "completion_s": waits.spread(completion_times(mine)),
            "wait_s": waits.spread(waits.job_waits(mine)),
            "share_held": _ratio(held, whole),
            "killed": float((attempts["state"][own] == "killed").sum()),
            "waste_cpu_s": waste_cpu(attempts.loc[own, ["cpu_s"]], attempts.loc[own & is_used, ["cpu_s"]]),
            "late": deadlines(mine, end_s)["late"],
        }
    return found


def _with_guarantees(queues: dict[str, Any], guarantees: Mapping[str, float]) -> dict[str, Any]:
    for name, figures in queues.items():
        share = guarantees.get(name, guarantees.get(name.removeprefix("root.")))
        if share is not None:
            figures["guarantee"] = share
    return queues


def record_error(jobs: pd.DataFrame, recorded_s: Mapping[str, float]) -> dict[str, float]:
    """Return how far jobs' completion times are from the recorded ones: absolute relative errors."""
    done = jobs[(jobs["state"] == "succeeded") & jobs["job"].isin(list(recorded_s))]
    took = (done["finish"] - done["submit"]).to_numpy(float)
    errors = np.abs(took / done["job"].map(recorded_s).to_numpy(float) - 1)
    return {
        "jobs": float(len(errors)),
        "median": float(np.median(errors)) if len(errors) else NAN,
        "mean": float(np.mean(errors)) if len(errors) else NAN,
    }


def completion_times(jobs: pd.DataFrame) -> np.ndarray:
    """Return the seconds from submission to finish of each successful job."""
    done = jobs[jobs["state"] == "succeeded"]
    times = (done["finish"] - done["submit"]).to_numpy(float)
    return times[~np.isnan(times)]


def job_states(jobs: pd.DataFrame) -> dict[str, float]:
    """Return the number of all and of the successful jobs."""
    return {"submitted": float(len(jobs)), "succeeded": float((jobs["state"] == "succeeded").sum())}


def locality(attempts: pd.DataFrame, used: pd.DataFrame | None = None) -> dict[str, dict[str, float]]:
    """Return the shares of node-local, rack-local and off-rack maps, by size of input splits and by number.

    Only maps whose input has a location count, each with its last successful attempt: `used`, or the result of
    `useful`. The share of the others among all maps with input is `none`, if there are any.
    """
    used = useful(attempts) if used is None else used
    unplaced = used[(used["kind"] == "map") & (used["locality"] == NO_LOCATION)]
    maps = used[(used["kind"] == "map") & used["locality"].isin(LOCALITIES) & (used["length"] > 0)]
    weights = {"bytes": maps["length"].to_numpy(float), "tasks": np.ones(len(maps))}
    where = maps["locality"].to_numpy()
    lost = {"bytes": float(unplaced["length"].sum()), "tasks": float(len(unplaced))}
    return {
        by: {place: _ratio(weight[where == place].sum(), weight.sum()) for place in LOCALITIES}
        | ({NO_LOCATION: lost[by] / (lost[by] + weight.sum())} if lost[by] else {})
        for by, weight in weights.items()
    }


def fairness(run: RunTables) -> dict[str, Any]:
    """Return each user's fair-share ratio, and Jain's fairness index over all users.

    The ratio is running slots / (all slots / active users), averaged over the time in which the user has an
    unfinished job (paper xu2015, section 5). Jain's index of active users' running slots is averaged over the
    time with two or more of them and a running task, and is 1 without such a time.
    """
    tasks = user_intervals(run)
    ratios = share_ratios(tasks, run.jobs, run.end_s, run.slots)
    return {"per_user": ratios, "jain": tasks.jain(active_users(run.jobs, run.end_s))}


def user_intervals(run: RunTables) -> Intervals:
    users = dict(zip(texts_of(run.jobs["job"]), texts_of(run.jobs["user"]), strict=True))
    return Intervals.of(run.attempts, Coded.mapped(run.attempts["job"], users), run.end_s)


def deadlines(jobs: pd.DataFrame, end_s: float) -> dict[str, float]:
    """Return the number of jobs with a deadline, the number late, and the sum of (T - D) / D over the late
    ones.

    T is the completion time and D the deadline, from submission; only finished jobs are summed. A failed job
    is late, and so is an unfinished one whose deadline is before `end_s`.
    """
    due = jobs[jobs["deadline"].notna()]
    finished = (due["state"] == "succeeded") & due["finish"].notna()
    allowed = due["deadline"] - due["submit"]
    over = (due["finish"] - due["deadline"])[finished & (due["finish"] > due["deadline"])]
    open_late = ~finished & ((due["state"] == "failed") | (due["deadline"] < end_s))
    exceeded = float((over / allowed[over.index].clip(lower=1e-9)).sum())
    return {"jobs": float(len(due)), "late": float(len(over) + open_late.sum()), "exceeded": exceeded}


def utilisation(heartbeats: pd.DataFrame) -> dict[str, float]:
    """Return the mean use as a share of declared rates; a heartbeat weighs the time since the previous one."""
    covered = heartbeat_intervals(heartbeats)
    if not covered.sum():
        return dict.fromkeys(RESOURCES, NAN)
    return {
        resource: float(np.average(heartbeats[UTIL_COLUMN[resource]].fillna(0.0), weights=covered))
        for resource in RESOURCES
    }


def energy_wh(run: RunTables) -> float:
    """Return the watt-hours of all nodes from the first submission to the last finish, as declared by `power`.

    Each node draws its idle watts all the time, and the rest in proportion to the CPU that its attempts used.
    """
    jobs, attempts = run.counted.jobs, run.counted.attempts
    span_s, joules = _span(jobs), 0.0
    cpu_s = attempts.groupby("node", observed=True)["cpu_s"].sum()
    for node in run.nodes:
        idle, busy = node.get("idle_watts", 0.0), node.get("busy_watts", 0.0)
        used_s = float(cpu_s.get(node["node"], 0.0)) / (node["cores"] * node["core_speed"])
        joules += idle * span_s + (busy - idle) * used_s
    return joules / 3600


def heartbeat_intervals(heartbeats: pd.DataFrame) -> np.ndarray:
    """Return, for each heartbeat, the seconds since the node's previous heartbeat, or 0 for the node's first one."""
    return HeartbeatSpans.of(heartbeats).in_rows()


def concurrency(run: RunTables) -> float:
    """Return the mean number of running attempts per node, over the makespan; NaN if that is zero."""
    span = _span(run.jobs)
    if not span > 0 or not run.nodes:
        return NAN
    everybody = Coded(np.zeros(len(run.attempts), np.intp), np.array(["all"]))
    tasks = Intervals.of(run.attempts, everybody, run.end_s)
    return float((tasks.end - tasks.start).sum() / span / len(run.nodes))


def slots_busy(run: RunTables) -> float:
    """Return the mean share of all slots in which attempts ran, between the first submission and the last finish."""
    return concurrency(run) * len(run.nodes) / run.slots if run.slots else NAN


def busiest(run: RunTables) -> dict[str, float]:
    """Return the hour with the most running attempts, or the tenth of a run below ten hours, and its busy slots."""
    if not run.slots or not run.end_s > 0:
        return {}
    width_s = min(3600.0, run.end_s / 10)
    edges = np.append(np.arange(0.0, run.end_s, width_s), run.end_s)
    edges = edges[np.append(True, np.diff(edges) > width_s / 2)]
    everybody = Coded(np.zeros(len(run.attempts), np.intp), np.array(["all"]))
    busy = Intervals.of(run.attempts, everybody, run.end_s).binned(None, edges) / run.slots
    place = int(np.argmax(busy))
    return {
        "from_s": float(edges[place]),
        "until_s": float(edges[place + 1]),
        "slots_busy": float(busy[place]),
    }


def waste_cpu(attempts: pd.DataFrame, used: pd.DataFrame | None = None) -> float:
    """Return the CPU seconds of attempts whose result was not used (not in `used`, by default `useful`).

    They were killed, failed, lost or superseded, or their tasks ran again later.
    """
    used = useful(attempts) if used is None else used
    return max(0.0, float(attempts["cpu_s"].sum() - used["cpu_s"].sum()))  # Rounding may give -0.0.


def useful(attempts: pd.DataFrame) -> pd.DataFrame:
    done = attempts[attempts["state"] == "succeeded"].sort_values("end", kind="stable")
    return done if done["task"].is_unique else done.drop_duplicates("task", keep="last")


def heartbeat_service(heartbeats: pd.DataFrame) -> dict[str, float]:
    """Return the median and the 99th percentile of the seconds that the JobTracker took to answer a heartbeat."""
    times = heartbeats["service_s"].dropna().to_numpy(float)
    if not len(times):
        return {"p50": NAN, "p99": NAN}
    return {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99))}


def _span(jobs: pd.DataFrame) -> float:
    return float(jobs["finish"].max() - jobs["submit"].min()) if len(jobs) else NAN


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else NAN
