"""The referee: names rows of a run that no cluster could have made, whatever code wrote the rows.

A policy runs in the process that makes the rows, so that the rows are held against what that process cannot
change: the plan of the run (jobs, costs, nodes) and arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.results.recorded import Recorded
from schedbed.tasks.specs import TaskKind

if TYPE_CHECKING:
    import pandas as pd

    from schedbed.deploy.results.runfile import RunFile, RunRecord

EXACT_S = 1e-6
"""The error of a simulated time."""
LIVE_S, LIVE_SHARE = 0.15, 0.9
"""The error of a live time: clocks of several hosts, and the share of a cost that an attempt uses at least."""
USED = 1.25
"""The most CPU time that an attempt or a node may show, as a multiple of what its cores give, for a live run."""
KINDS = (TaskKind.MAP.value, TaskKind.REDUCE.value)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job as it was planned. `least_s` has the least seconds of each task by kind, one value if all are equal."""

    submit_s: float
    deadline_s: float
    is_held: bool
    tasks: tuple[int, int]
    memory: tuple[int, int]
    least_s: tuple[np.ndarray, np.ndarray]


class Referee:
    """Holds rows against the plan in run.json. `impossible` judges one policy in one repeat."""

    def __init__(self, run: RunFile) -> None:
        scenario = run.scenario
        simulate, framework = scenario.get("simulate", {}), scenario.get("framework", {})
        self._nodes = {str(node["node"]): node for node in run.nodes}
        self._is_simulated = run.machines == "sim"
        self._is_exact = self._is_simulated and not run.replays
        self._error_s = EXACT_S if self._is_simulated else LIVE_S
        self._contention = bool(simulate.get("contention", True))
        self._pooled = bool(framework.get("am_memory_bytes"))
        self._masters_bytes = int(framework.get("am_memory_bytes") or 0)
        self._timed = simulate.get("costs") == "trace"
        self._planned = frozenset(run.jobs)
        self._whole = not run.left_out
        speeds = [float(node["core_speed"]) for node in run.nodes]
        self._core_speed = sum(speeds) / len(speeds) if speeds else 1.0
        rates = [max(float(node["disk_bps"]), float(node["network_bps"])) for node in run.nodes]
        self._read_bps = max(rates, default=0.0) if self._is_exact and min(rates, default=0.0) > 0 else 0.0
        self.jobs = {str(job["job"]): self._job(job) for job in scenario.get("jobs", ())}

    def _job(self, job: Mapping[str, Any]) -> JobPlan:
        maps, reduces = int(job["maps"]), int(job["reduces"])
        fetched = (
            sum(_times(each) * _cost(each)["write_bytes"] for each in job["map_costs"]) if reduces else 0
        )
        moving_s = 0.0
        if reduces and job["reduce_costs"]:
            from schedbed.deploy.simulated.task_costs import HANDLING

            moving_s = HANDLING.shuffle_s(maps, fetched / reduces) / self._core_speed
        demands = (job["map_demand"]["memory_bytes"], job["reduce_demand"]["memory_bytes"])
        deadline_s = job["deadline_s"]
        return JobPlan(
            float(job["submit_s"]),
            float("nan") if deadline_s is None else float(deadline_s),
            job["after"] is not None,
            (maps, reduces),
            (0, 0) if job.get("uber") else demands,
            (self._least_s(job["map_costs"], 0.0), self._least_s(job["reduce_costs"], moving_s)),
        )

    def _least_s(self, costs: Sequence[Any], moving_s: float) -> np.ndarray:
        """Return the least seconds of tasks with these costs, as one value if they are all equal."""
        least = [max(0.0, self._floor_s(_cost(each)) - moving_s) for each in costs]
        if len(costs) <= 1:
            return np.array(least or [0.0])
        return np.repeat(least, [_times(each) for each in costs])

    def _floor_s(self, cost: Mapping[str, Any]) -> float:
        if self._timed and cost["duration_s"] is not None:
            return float(cost["duration_s"])
        read_s = cost["read_bytes"] / self._read_bps if self._read_bps else 0.0
        return max(float(cost["cpu_s"]), read_s)

    # ------------------------------------------------------------------ one run

    def tasks(self, tables: Mapping[str, pd.DataFrame]) -> AttemptColumns:
        """Return the attempts as arrays, which both judgments read."""
        return AttemptColumns(tables["attempts"], self.jobs, self._nodes)

    def impossible(
        self, record: RunRecord, tables: Mapping[str, pd.DataFrame], tasks: AttemptColumns | None = None
    ) -> list[str]:
        """Return a line for each kind of impossible rows, with the first of them, or nothing.

        A run that failed is not judged, since nobody can take its rows for a result, and none without a plan.
        """
        if record.state == "failed" or not self._nodes:
            return []
        jobs, tasks = tables["jobs"], tasks or self.tasks(tables)
        limits = record.findings.get("limits", ["slots"])
        lines = [
            *(f"rows of {name}" for name in record.rewritten),
            *self._of_jobs(jobs),
            *self._of_attempts(tasks),
            *self._of_ends(jobs, tasks),
            *self._of_costs(jobs, tasks),
            *self._of_nodes(tasks, limits),
            *self._of_heartbeats(tables["heartbeats"]),
        ]
        return [f"Impossible: {line}." for line in lines]

    def memory_doubts(self, tasks: AttemptColumns) -> list[str]:
        """Return a sentence about a simulated node whose attempts declared more memory than it has.

        A policy that counts slots only may do this. Live, a node has no more than its memory for what they
        really use, and kills attempts, which a simulation of declared costs does not show. A node that pages
        is simulated as it is.
        """
        if not (self._is_simulated and self._nodes):
            return []
        sizes = [0.0 if node.get("paging") else float(node["memory_bytes"]) for node in self._nodes.values()]
        has = np.array([size or np.inf for size in sizes])
        rows = np.flatnonzero(tasks.node >= 0)
        worst = tasks.most_at_once(rows, tasks.memory()[rows], tasks.end, has)
        if worst is None:
            return []
        row, held, size = worst
        return [
            f"Attempts on node {tasks.node_name(row)} declared {held / 2**20:.6g} MiB of memory at "
            f"{tasks.assigned[row]:.6g} s and it has {size / 2**20:.6g} MiB, where live ones may be killed: declare "
            "fewer slots, less memory or `paging`, or choose a policy that counts memory."
        ]

    def _of_jobs(self, jobs: pd.DataFrame) -> Iterator[str]:
        names = _texts(jobs["job"])
        submit, finish = _floats(jobs, "submit"), _floats(jobs, "finish")
        start, deadline = _floats(jobs, "start"), _floats(jobs, "deadline")
        error_s = self._error_s

        def said(what: str) -> Callable[[int], str]:
            return lambda row: (
                f"job {names[row]} {what}: submitted at {submit[row]:.6g} s, started at {start[row]:.6g} s, "
                f"ended at {finish[row]:.6g} s"
            )

        yield from _first(jobs["job"].duplicated().to_numpy(bool), said("has two rows"))
        # A job may be killed before its submission, and then one without tasks succeeds.
        killed = (jobs["state"] == "killed").to_numpy(bool) | (jobs["maps"] + jobs["reduces"] == 0).to_numpy(
            bool
        )
        late = (
            (~killed & (finish + error_s < submit)) | (start + error_s < submit) | (finish + error_s < start)
        )
        yield from _first(late | ~np.isfinite(submit + finish) | (submit < 0), said("ends before it begins"))
        plans = [self.jobs.get(name) for name in names]
        if self._planned:
            strange = np.array([name not in self._planned for name in names], bool)
            yield from _first(strange, said("was not planned"))
        planned_s = np.array([np.nan if plan is None else plan.submit_s for plan in plans], float)
        held = np.array([plan is None or plan.is_held for plan in plans], bool)
        early = (submit < planned_s - error_s) | (~held & (submit > planned_s + error_s))
        yield from _first(early, said("was not submitted as planned"))
        due = np.array([np.nan if plan is None or plan.is_held else plan.deadline_s for plan in plans], float)
        moved = ~held & ((np.isnan(due) != np.isnan(deadline)) | (np.abs(due - deadline) > error_s))
        yield from _first(moved, said("has another deadline than planned"))

    def _of_attempts(self, tasks: AttemptColumns) -> Iterator[str]:
        yield from _first(tasks.repeated, lambda row: f"attempt {tasks.attempt(row)} has two rows")
        began = np.where(np.isnan(tasks.start), tasks.assigned, tasks.start)
        error_s = self._error_s
        bad = (began < tasks.assigned - error_s) | (tasks.end < began - error_s) | (tasks.assigned < 0)
        bad |= ~np.isfinite(tasks.assigned + tasks.end) | (tasks.succeeded & np.isnan(tasks.start))
        yield from _first(bad, lambda row: f"attempt {tasks.told(row)}: its times do not increase")
        yield from _first(tasks.node < 0, lambda row: f"attempt {tasks.told(row)}: there is no such node")

    def _of_ends(self, jobs: pd.DataFrame, tasks: AttemptColumns) -> Iterator[str]:
        """Yield lines about succeeded jobs: tasks that did not succeed once, or after the job's end."""
        if not self._whole:
            return
        names, states = _texts(jobs["job"]), _texts(jobs["state"])
        finish = dict(zip(names, _floats(jobs, "finish").tolist(), strict=True))
        wanted = {
            name: counts
            for name, state, *counts in zip(
                names, states, jobs["maps"].tolist(), jobs["reduces"].tolist(), strict=True
            )
            if state == "succeeded" and name in self.jobs
        }
        for kind, label in enumerate(KINDS):
            done, last = tasks.done(kind)
            whole, _ = tasks.done(kind, whole=True)
            for name, counts in wanted.items():
                planned, has = self.jobs[name].tasks[kind], done.get(name, 0)
                if has != counts[kind] or whole.get(name, 0) != planned:
                    yield f"job {name} succeeded, but {whole.get(name, 0)} of its {planned} {label}s did"
                    break
                if has and last[name] > finish[name] + self._error_s:
                    yield f"job {name} ended at {finish[name]:.6g} s, its last {label} at {last[name]:.6g} s"
                    break
        twice = tasks.repeated_reduces()
        yield from _first(twice, lambda row: f"attempt {tasks.told(row)}: its task had succeeded before")

    def _of_costs(self, jobs: pd.DataFrame, tasks: AttemptColumns) -> Iterator[str]:
        """Yield lines about attempts that were shorter than their cost, or used more CPU time than their time."""
        if self._is_exact:
            share, error_s, begin = 1.0, EXACT_S, tasks.start
        else:
            share, error_s, begin = LIVE_SHARE, LIVE_S, tasks.assigned
        took, least = tasks.end - begin, tasks.least_s()
        whole = set(jobs["job"][(jobs["state"] == "succeeded").to_numpy(bool)])
        short = tasks.succeeded & ~tasks.is_part & (took < share * least - error_s)
        yield from _first(
            short,
            lambda row: (
                f"attempt {tasks.told(row)}: it took {took[row]:.6g} s, its cost is {least[row]:.6g} s"
            ),
        )
        yield from tasks.short_splits(whole, took, least, share, error_s)
        given = (tasks.end - tasks.assigned) * tasks.of_node("core_speed")
        most = given * (1.0 + 1e-9 if self._is_exact else USED) + error_s
        yield from _first(
            (tasks.cpu_s > most) & (tasks.node >= 0),
            lambda row: (
                f"attempt {tasks.told(row)}: it used {tasks.cpu_s[row]:.6g} s of CPU time, one core gives "
                f"{given[row]:.6g} s"
            ),
        )

    # ------------------------------------------------------------------- nodes

    def _of_nodes(self, tasks: AttemptColumns, limits: Sequence[str]) -> Iterator[str]:
        known = tasks.node >= 0
        until = tasks.end - (0.0 if self._is_simulated else LIVE_S)
        if "slots" in limits and not self._pooled:
            for kind, label in enumerate(KINDS):
                rows = np.flatnonzero(known & (tasks.kind == kind))
                worst = tasks.most_at_once(rows, np.ones(len(rows)), until, tasks.per_node(f"{label}_slots"))
                if worst is not None:
                    row, held, has = worst
                    at_s = f"{tasks.assigned[row]:.6g} s"
                    yield f"node {tasks.node_name(row)} ran {held:g} {label}s at {at_s} in {has:g} slots"
        if "memory" in limits:
            rows = np.flatnonzero(known)
            worst = tasks.most_at_once(rows, tasks.memory()[rows], until, tasks.per_node("memory_bytes"))
            if worst is not None:
                row, held, has = worst
                yield (
                    f"node {tasks.node_name(row)} had containers of {held / 2**20:.6g} MiB at "
                    f"{tasks.assigned[row]:.6g} s in {has / 2**20:.6g} MiB"
                )
        if self._contention and len(tasks.node):
            busy, used = (
                tasks.busy_s(known),
                np.bincount(tasks.node[known], tasks.cpu_s[known], len(self._nodes)),
            )
            most = busy * tasks.per_node("cores") * tasks.per_node("core_speed")
            slack = most * (1e-6 if self._is_simulated else USED - 1.0) + self._error_s
            yield from _first(
                used > most + slack,
                lambda node: (
                    f"node {list(self._nodes)[node]} used {used[node]:.6g} s of CPU time, its cores give "
                    f"{most[node]:.6g} s while attempts ran"
                ),
            )

    def _of_heartbeats(self, heartbeats: pd.DataFrame) -> Iterator[str]:
        times = _floats(heartbeats, "t")
        names = heartbeats["node"]
        strange = ~names.isin(list(self._nodes)).to_numpy(bool) | ~(times >= 0)
        yield from _first(strange, lambda row: f"a heartbeat of {names.iloc[row]} at {times[row]:.6g} s")


class AttemptColumns:
    """The columns of attempts as arrays. Jobs, tasks and nodes are numbers."""

    def __init__(
        self, rows: pd.DataFrame, plans: Mapping[str, JobPlan], nodes: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self._rows, self._nodes = rows, list(nodes.values())
        self.assigned, self.start = _floats(rows, "assigned"), _floats(rows, "start")
        self.end, self.cpu_s = _floats(rows, "end"), np.nan_to_num(_floats(rows, "cpu_s"))
        self._job, self._job_names = _codes(rows["job"])
        self._task, self._task_names = _codes(rows["task"])
        split_of, split_names = _codes(rows["split_of"])
        is_whole = np.array([not isinstance(name, str) or not name for name in split_names], bool)
        self.is_part = ~is_whole[split_of] if len(split_of) else np.zeros(0, bool)
        known = {name: place for place, name in enumerate(self._task_names)}
        first = np.array([known.get(name, -1) for name in split_names] or [0], int)
        self._origin = np.where(self.is_part, first[split_of], self._task) if len(rows) else self._task
        self.kind = _numbers(rows["kind"], {name: place for place, name in enumerate(KINDS)})
        self.node = _numbers(rows["node"], {name: place for place, name in enumerate(nodes)})
        self.succeeded = (rows["state"] == "succeeded").to_numpy(bool)
        unheard = ~self.succeeded & (self.end == 0)  # Its node never reported the end.
        self.end = np.where(unheard, np.fmax(self.assigned, self.start), self.end)
        self.repeated = (
            rows["attempt"].duplicated().to_numpy(bool) if "attempt" in rows else np.zeros(len(rows), bool)
        )
        self._plans = [plans.get(str(name)) for name in self._job_names]

    def attempt(self, row: int) -> str:
        return str(self._rows["attempt"].iloc[row]) if "attempt" in self._rows else self.task(row)

    def task(self, row: int) -> str:
        return str(self._rows["task"].iloc[row])

    def node_name(self, row: int) -> str:
        return str(self._rows["node"].iloc[row])

    def told(self, row: int) -> str:
        """Return an attempt with its node and times, for a line."""
        times = f"{self.assigned[row]:.6g}, {self.start[row]:.6g}, {self.end[row]:.6g} s"
        return f"{self.attempt(row)} on {self.node_name(row)} ({times})"

    # ------------------------------------------------------------------- tasks

    def done(self, kind: int, *, whole: bool = False) -> tuple[dict[str, int], dict[str, float]]:
        """Return, by job, the number of tasks that succeeded, and the end of the last one.

        A task that ran again after its output was lost ends with its first success. With `whole`, a split
        counts as one task.
        """
        rows = np.flatnonzero(self.succeeded & (self.kind == kind))
        keys = (self._origin if whole else self._task)[rows]
        order = np.lexsort((self.end[rows], keys))
        rows, keys = rows[order], keys[order]
        firsts = rows[np.append(True, keys[1:] != keys[:-1])] if len(rows) else rows
        counts = np.bincount(self._job[firsts], minlength=len(self._job_names))
        last = np.full(len(self._job_names), -np.inf)
        np.maximum.at(last, self._job[firsts], self.end[firsts])
        names = [str(name) for name in self._job_names]
        return dict(zip(names, counts.tolist(), strict=True)), dict(zip(names, last.tolist(), strict=True))

    def repeated_reduces(self) -> np.ndarray:
        """Return which rows are a second success of a reduce, whose output is committed once."""
        again = np.zeros(len(self.end), bool)
        rows = np.flatnonzero(self.succeeded & (self.kind == 1))
        _, firsts = np.unique(self._task[rows], return_index=True)
        again[rows] = True
        again[rows[firsts]] = False
        return again

    def least_s(self) -> np.ndarray:
        """Return the least seconds of each attempt's task, of the whole task for a part."""
        found = np.zeros(len(self.end))
        for kind in (0, 1):
            rows = np.flatnonzero(self.succeeded & (self.kind == kind))
            plain = [
                0.0 if plan is None or len(plan.least_s[kind]) > 1 else plan.least_s[kind][0]
                for plan in self._plans
            ]
            found[rows] = np.array(plain or [0.0])[self._job[rows]]
            varied = np.array(
                [plan is not None and len(plan.least_s[kind]) > 1 for plan in self._plans] or [False]
            )
            for row in rows[varied[self._job[rows]]].tolist():
                plan = self._plans[self._job[row]]
                assert plan is not None
                number = _index(str(self._task_names[self._origin[row]]))
                least = plan.least_s[kind]
                found[row] = least[number] if number < len(least) else 0.0
        return found

    def short_splits(
        self, jobs: set[str], took: np.ndarray, least: np.ndarray, share: float, error_s: float
    ) -> Iterator[str]:
        """Yield a line about a split map of one of these jobs whose parts together took less than its cost."""
        total: dict[int, float] = {}
        longest: dict[tuple[int, int], float] = {}
        for row in np.flatnonzero(self.succeeded & self.is_part).tolist():
            if self._job_names[self._job[row]] not in jobs:
                continue
            key = (int(self._origin[row]), int(self._task[row]))
            longest[key] = max(longest.get(key, 0.0), float(took[row]))
            total[key[0]] = float(least[row])
        sums: dict[int, float] = {}
        for (origin, _), seconds in longest.items():
            sums[origin] = sums.get(origin, 0.0) + seconds
        for origin, seconds in sums.items():
            if seconds < share * total[origin] - error_s:
                yield f"the parts of {self._task_names[origin]} took {seconds:.6g} s, its cost is {total[origin]:.6g} s"
                return

    # ------------------------------------------------------------------- nodes

    def per_node(self, key: str) -> np.ndarray:
        return np.array([float(node[key]) for node in self._nodes])

    def of_node(self, key: str) -> np.ndarray:
        """Return a value of each attempt's node, that of any node where it is unknown."""
        return self.per_node(key)[self.node] if len(self._nodes) else np.zeros(len(self.node))

    def memory(self) -> np.ndarray:
        """Return the memory that each attempt declares."""
        found = np.zeros(len(self.end))
        for kind in (0, 1):
            rows = self.kind == kind
            sizes = np.array([0 if plan is None else plan.memory[kind] for plan in self._plans] or [0], float)
            found[rows] = sizes[self._job[rows]]
        return found

    def most_at_once(
        self, rows: np.ndarray, amounts: np.ndarray, until: np.ndarray, has: np.ndarray
    ) -> tuple[int, float, float] | None:
        """Return the first row whose launch put more on its node than the node `has`, with the amounts.

        An attempt holds its amount from its launch to `until`, and an end comes before a launch at the same
        time.
        """
        if not len(rows):
            return None
        begins = self.assigned[rows]
        ends = np.maximum(until[rows], begins)
        nodes = np.concatenate((self.node[rows], self.node[rows]))
        steps = np.concatenate((amounts, -amounts))
        times = np.concatenate((begins, ends))
        order = np.lexsort((steps, times, nodes))
        held = np.cumsum(steps[order])
        over = np.flatnonzero(held > has[nodes[order]] * (1 + 1e-12))
        if not len(over):
            return None
        place = int(over[0])
        return int(rows[order[place] % len(rows)]), float(held[place]), float(has[nodes[order[place]]])

    def busy_s(self, known: np.ndarray) -> np.ndarray:
        """Return for how many seconds each node had at least one attempt."""
        rows = np.flatnonzero(known)
        order = rows[np.lexsort((self.assigned[rows], self.node[rows]))]
        found = np.zeros(len(self._nodes))
        if not len(order):
            return found
        nodes, begins = self.node[order], self.assigned[order]
        # Shifting each node's times by more than the run makes one running maximum serve all nodes.
        shift = nodes * (float(self.end[order].max()) + 1.0)
        reached = np.maximum.accumulate(self.end[order] + shift)
        before = np.append(-np.inf, reached[:-1])
        added = reached - np.maximum(before, begins + shift)
        np.add.at(found, nodes, np.maximum(0.0, added))
        return found


def refuse_impossible(folder: Path | str, run: RunFile, *, also_failed: bool = False) -> None:
    """Raise RunFailed if the tables in a run's folder have impossible rows. Rows of failed runs count if asked."""
    referee, recorded, found = Referee(run), Recorded(folder, run), list[str]()
    for record in run.runs:
        if also_failed:
            record = replace(record, state="")
        tables = recorded.measured(record.policy, record.repeat).tables
        found += [f"{record.policy}: {line}" for line in referee.impossible(record, tables)]
    if found:
        raise RunFailed(f"{folder}: {'; '.join(found)}")


def _first(bad: np.ndarray, said: Callable[[int], str]) -> Iterator[str]:
    """Yield the line about the first bad row, with the number of others."""
    rows = np.flatnonzero(bad)
    if len(rows):
        more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
        yield said(int(rows[0])) + more


def _codes(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as numbers, and the text of each number."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, names = column.cat.codes.to_numpy(), column.cat.categories.to_numpy(object)
        return np.where(codes < 0, len(names), codes).astype(int), np.append(names, np.nan)
    codes, names = pd.factorize(column.to_numpy(object), use_na_sentinel=False)
    return codes.astype(int), np.asarray(names, object)


def _numbers(column: pd.Series, places: Mapping[str, int]) -> np.ndarray:
    """Return the place of each text, -1 for an unknown one."""
    codes, names = _codes(column)
    return np.array([places.get(name, -1) for name in names] or [-1], int)[codes]


def _texts(column: pd.Series) -> list[str]:
    return [str(text) for text in column.to_numpy(object)]


def _floats(rows: pd.DataFrame, column: str) -> np.ndarray:
    return rows[column].to_numpy(float)


def _index(task: str) -> int:
    number = task.rpartition("_")[2]
    return int(number) if number.isascii() and number.isdigit() else 1 << 60


def _times(entry: Any) -> int:
    """Return for how many tasks an entry of packed costs stands."""
    return int(entry[0]) if isinstance(entry, list) else 1


def _cost(entry: Any) -> Mapping[str, Any]:
    return entry[1] if isinstance(entry, list) else entry
