"""Conversion of a `Simulation` object, before its start, to the arrays of the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from schedbed.scheduler.core.core import CoreConfig
from schedbed.scheduler.history import ROW_GROUP_ROWS
from schedbed.scheduler.order.capacity import QUEUE_FULL, USER_FULL, Capacity, Queue
from schedbed.scheduler.order.pools import PoolSettings
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.simulate.compiled import entity_records as plain
from schedbed.scheduler.simulate.compiled import state as names
from schedbed.scheduler.simulate.compiled.arrays import (
    Arrays,
    Ints,
    Table,
    Values,
    longer,
    record,
    record_grid,
    records,
)
from schedbed.scheduler.simulate.compiled.contended import flow_arrays
from schedbed.scheduler.simulate.compiled.covers import compiled_axis, counts_slots, is_compiled, splits
from schedbed.scheduler.simulate.compiled.heaps import WORD
from schedbed.scheduler.simulate.compiled.input_tables import beside_table, racks_of_nodes
from schedbed.scheduler.simulate.compiled.state import (
    BY_NUMBER,
    BY_PRIORITY,
    DUE_EVENT,
    FAIR,
    JOIN_EVENT,
    SHIFT,
    TICK_EVENT,
    Numbers,
    Seconds,
    State,
)
from schedbed.scheduler.simulate.elision import acts_on_ticks, is_quiet, resting_of
from schedbed.scheduler.simulate.loading.task_tables import TaskTables, task_tables
from schedbed.scheduler.simulate.row_frames import Text
from schedbed.scheduler.simulate.setup import NotCovered
from schedbed.tasks.specs import JobSpec

if TYPE_CHECKING:
    from schedbed.scheduler.locality.delay import Delay
    from schedbed.scheduler.order.fair import Fair
    from schedbed.scheduler.simulate.simulation import Simulation

ROWS = ROW_GROUP_ROWS
"""Number of decisions, and of heartbeats, after which the loop pauses to pass rows on: a whole group of a table."""
FILES = 1 << 14
"""Number of recorded file changes after which the loop pauses."""


STEPS = 1 << 12
"""Number of events after which a policy in Python is told of them, even if it is not asked."""
STOPS = 1 << 10
"""Number of attempts that a policy in Python may stop in the loop, besides one for every eight tasks. As many maps
may be split by a policy that does not declare it."""
ROOM_WITHOUT_SLOTS = 48
"""Number of maps, and of reduces, that a node may run under a policy that does not count slots."""


def tables_of(simulation: Simulation) -> TaskTables:
    """Return the tables of a new simulation. Raises NotCovered."""
    return simulation.task_tables or task_tables(simulation.setup, simulation.storage, simulation.jobs)


def make_state(simulation: Simulation, made: TaskTables) -> State:
    """Return the arrays of a new simulation with the tables of `tables_of`. Raises NotCovered."""
    jobs, nodes, contention = simulation.jobs, simulation.nodes, simulation.setup.contention
    if contention and (why := flow_arrays.why_not(simulation, made.costs)):
        raise NotCovered(why)
    job_table, tasks, arrays = made.jobs, made.tasks, made.inputs
    pools, pool_jobs = _pools(simulation, jobs, job_table)
    queues, members = queue_tables(simulation.master.policy, jobs, job_table)
    node_table, order = _nodes(simulation)
    arrays = arrays | _of_delay(simulation, job_table, node_table, arrays)
    slots, (stops, parts) = sum(map(sum, rooms_of(simulation))), _stops_and_parts(simulation, len(tasks))
    count = len(tasks) + parts
    state = State(
        sec=record(Seconds),
        num=record(Numbers),
        nodes=node_table,
        jobs=job_table,
        stages=made.stages,
        tasks=longer(tasks, parts),
        parts=records(parts, plain.PartEntry),
        costs=longer(made.cost_table, 2 * parts + (stops if simulation.setup.stragglers.share else 0)),
        pools=pools,
        pool_stages=records(2 * len(pools), plain.PoolStageEntry),
        pool_jobs=pool_jobs,
        queues=queues,
        members=members,
        ready=np.zeros(2 * len(job_table), np.int32),
        order=np.zeros(2 * len(pools), np.int32),
        dirty=np.zeros(2 * len(job_table), np.int32),
        skipped=np.zeros(len(job_table), np.int32),
        end_s=np.zeros(slots + 1),
        end_code=np.zeros(slots + 1, np.int64),
        commits=np.zeros(len(tasks), np.int32),
        ring_s=np.array([nodes[index].base_s % simulation.interval_s for index in order]),
        ring_node=_array(order),
        is_started=np.zeros(count, np.int8),
        attempt_rows=np.zeros(count + stops, np.int32),
        job_rows=np.zeros(len(job_table), np.int32),
        file_rows=records(FILES + slots + len(nodes), plain.FileEntry),
        steps=records(0 if is_compiled(simulation.master.policy) else STEPS, plain.StepEntry),
        resting=np.zeros(len(nodes), np.int32),
        stops=np.zeros(min(stops, slots) + 1, np.int32),
        answered=np.zeros(2, np.int64),
        **arrays,
        **_of_nodes(simulation, ROWS + _rows_at_once(simulation, len(queues) + len(members))),
        **_of_reduces(simulation, len(tasks), stops),
        **(flow_arrays.fluid(simulation, len(tasks)) if contention else flow_arrays.no_fluid()),
    )
    _begin(state)
    _fill_numbers(simulation, state)
    state.num.tasks = len(tasks)
    if contention:
        flow_arrays.begin(simulation, state)
    return state


def rooms_of(simulation: Simulation) -> list[tuple[int, int]]:
    """Return for how many maps and reduces at a time each node has room in the loop's arrays."""
    if counts_slots(simulation.master.policy):
        return [(node.spec.map_slots, node.spec.reduce_slots) for node in simulation.nodes]
    return [(ROOM_WITHOUT_SLOTS, ROOM_WITHOUT_SLOTS)] * len(simulation.nodes)


def _stops_and_parts(simulation: Simulation, tasks: int) -> tuple[int, int]:
    """Return how many attempts the policy may stop, and maps it may split; compiled ones do neither."""
    policy = simulation.master.policy
    few = STOPS + tasks // 8
    if is_compiled(policy):
        return 0, 0
    if splits(policy):
        return few, tasks
    return few, 0 if hasattr(policy, "axes") else few


def _rows_at_once(simulation: Simulation, refusing: int) -> int:
    """Return the most decision rows of one heartbeat: a job declines at most once under delay scheduling.

    Each of `refusing` queues and users may refuse at each offer of a slot.
    """
    slots = max(map(sum, rooms_of(simulation)))
    return len(simulation.jobs) + (slots + 2) * (1 + refusing)


def _of_nodes(simulation: Simulation, decisions: int) -> Arrays:
    """Return arrays whose width depends on slots, and buffers of rows (`decisions` of them for decisions)."""
    count, rooms = len(simulation.nodes), rooms_of(simulation)
    widest = max(map(sum, rooms)) + 1
    reducing = max(reduces for _, reduces in rooms) + 1
    return {
        "runs": np.zeros((count, widest), np.int32),
        "finished": np.zeros((count, widest), np.int32),
        "launched": np.zeros(widest, np.int32),
        "feeds": record_grid(count, reducing, plain.FeedEntry),
        "reducing": record_grid(count, reducing, plain.FeedEntry),
        "decision_rows": records(decisions, plain.DecisionEntry),
        "heartbeat_rows": records(ROWS + count, plain.HeartbeatEntry),
    }


def _of_delay(
    simulation: Simulation,
    jobs: Table[plain.JobEntry],
    nodes: Table[plain.NodeEntry],
    arrays: Arrays,
) -> Arrays:
    """Return the arrays of jobs that decline nodes. They are almost empty without delay scheduling and queues."""
    policy = simulation.master.policy
    is_delay, has_queues = compiled_axis(policy, "delay") is not None, queues_of(policy) is not None
    patience = records((len(jobs) if is_delay or has_queues else 0) * (1 + has_queues), plain.PatienceEntry)
    patience["skipped_heartbeat"] = -1
    patience["has_free"] = 1
    patience["launched"] = -1.0
    if not is_delay:
        return {"patience": patience, "beside": records(0, plain.BesideEntry)}
    return {"patience": patience, "beside": beside_table(jobs, arrays["near"], arrays["near_task"], nodes)}


def _of_reduces(simulation: Simulation, tasks: int, stops: int) -> Arrays:
    """Return the event queue and what announces outputs. Each of `stops` needs a reply, and may be a reduce."""
    nodes, jobs = simulation.nodes, simulation.jobs
    reduces = sum(job.reduces for job in jobs)
    rooms = [reduces for _, reduces in rooms_of(simulation)]
    chains = 3 + min(sum(1 for job in jobs if job.reduces), sum(rooms))
    widest = max(rooms) + 1
    rings = flow_arrays.replies(simulation, reduces + 2 * stops, widest)
    events = 4 * len(nodes) + tasks + len(rings["replies"]) + 64
    return {
        **rings,
        "event_s": np.zeros(events),
        "event_code": np.zeros(events, np.int64),
        "boards": records(reduces + stops, plain.BoardEntry),
        "bits": np.zeros((chains + 1, len(nodes) // WORD + 1), np.int64),
        "chains": records(chains, plain.ChainEntry),
        "chain_free": np.arange(chains - 1, 1, -1, dtype=np.int32),
        "waiting": np.zeros(chains, np.int32),
    }


def _begin(state: State) -> None:
    """Set fields to -1: pools have no place in their order, and chains wait for no timer."""
    state.pool_stages["place"] = -1
    state.chains["node"] = -1
    state.chains["until"] = -1.0


def _array(values: list[int]) -> Ints:
    return np.array(values or [0], np.int32)


def _pools(
    simulation: Simulation, jobs: Sequence[JobSpec], table: Table[plain.JobEntry]
) -> tuple[Table[plain.PoolEntry], Ints]:
    """Return the pools or queues (one under FIFO), and the jobs' numbers by pool."""
    policy = simulation.master.policy
    owners, settings = [""] * len(jobs), {"": PoolSettings(inside="fifo")}
    queues = queues_of(policy)
    if queues is not None:
        owners = [job.queue for job in jobs]
        settings = dict.fromkeys(owners, PoolSettings(inside="fifo"))
    elif (order := compiled_axis(policy, "fair")) is not None:
        owners = [order.pool_of(job) for job in jobs]
        settings = {name: order.settings_of(name) for name in owners}
    pools = sorted(settings)
    place = {name: number for number, name in enumerate(pools)}
    table["pool"][: len(jobs)] = [place[name] for name in owners]
    entries = records(len(pools), plain.PoolEntry)
    for entry, name in zip(entries, pools, strict=False):
        entry.weight = settings[name].weight
        entry.fifo = BY_PRIORITY if settings[name].inside == "fifo" else FAIR
        if queues is not None and not queues.new_queue(name).priorities:
            entry.fifo = BY_NUMBER
    entries["name"] = np.arange(len(entries))
    of_jobs = table["pool"][: len(jobs)]
    edges = np.searchsorted(np.sort(of_jobs), np.arange(len(entries) + 1))
    entries["at"], entries["end"], entries["oldest"] = edges[:-1], edges[1:], edges[:-1]
    return entries, _array(np.argsort(of_jobs, kind="stable").tolist())


def _nodes(simulation: Simulation) -> tuple[Table[plain.NodeEntry], list[int]]:
    """Return the nodes, and their numbers by heartbeat timer. Sets each node's `base_s`, the timer's start."""
    table = records(len(simulation.nodes), plain.NodeEntry)
    _, rack_of = racks_of_nodes(simulation.setup.cluster.nodes)
    timing = simulation.setup.timing
    part, nodes = table[: len(simulation.nodes)], simulation.nodes
    for node in nodes:
        node.base_s = timing.begin_s + timing.request_s + node.phase_s - simulation.interval_s
    part["number_0"], part["latency"] = [node.base_s for node in nodes], [node.start_s for node in nodes]
    specs = [node.spec for node in nodes]
    part["speed"], part["cpu_rate"] = [spec.core_speed for spec in specs], [spec.cpu_rate for spec in specs]
    part["disk"], part["network"] = [spec.disk_bps for spec in specs], [spec.network_bps for spec in specs]
    part["map_slots"] = part["free_maps"] = [spec.map_slots for spec in specs]
    part["free_reduces"] = [spec.reduce_slots for spec in specs]
    table["rack"][: len(rack_of)] = rack_of
    for name in ("grid", "event", "timer", "board"):
        table[name] = -1
    interval_s = simulation.interval_s
    order = sorted(
        range(len(simulation.nodes)), key=lambda index: (simulation.nodes[index].base_s % interval_s, index)
    )
    table["rank"][order] = np.arange(len(order))
    return table, order


def _fill_numbers(simulation: Simulation, state: State) -> None:
    sec, num, timing = state.sec, state.num, simulation.setup.timing
    policy = simulation.master.policy
    sec.passed_at = sec.tick = -1.0
    sec.passing = inf
    sec.interval = simulation.interval_s
    sec.request, sec.committed = timing.request_s, timing.commit_s
    sec.replied = timing.reply_s + timing.decision_s
    sec.slowstart = CoreConfig().slowstart
    delay: Delay | None = compiled_axis(policy, "delay")
    if delay is not None:
        num.is_delay = 1
        sec.node_wait, sec.rack_wait = delay.node_wait_s, delay.rack_wait_s
    fair: Fair | None = compiled_axis(policy, "fair")
    num.is_fair, num.by_name = fair is not None, fair is not None and fair.by_name
    num.is_capacity = queues_of(policy) is not None
    specs = [node.spec for node in simulation.nodes]
    num.slots[0] = sum(spec.map_slots for spec in specs)
    num.slots[1] = sum(spec.reduce_slots for spec in specs)
    num.writes_heartbeats = simulation.setup.heartbeat_rows
    num.writes_skips = simulation.setup.skip_rows
    num.replication = simulation.setup.cluster.blocks.replication
    num.jobs = len(simulation.jobs)
    num.chains = len(state.chain_free)
    sec.due = simulation.jobs[0].submit_s if simulation.jobs else inf
    entries = [(timing.begin_s, JOIN_EVENT << SHIFT | node.index) for node in simulation.nodes]
    if simulation.jobs:
        entries.append((max(float(sec.due), 0.0), DUE_EVENT << SHIFT))
    if not is_compiled(policy):
        num.always = not is_quiet(policy)
        num.hears_heartbeats = not num.always and hasattr(policy, "beat")
        num.acts_on_ticks = num.always or acts_on_ticks(policy)
        num.ignores_slots = not counts_slots(policy)
        num.may_rest = not num.always and resting_of(policy) is not None
        if num.acts_on_ticks:
            sec.tick = sec.interval
            entries.append((float(sec.tick), TICK_EVENT << SHIFT))
    for place, (at_s, code) in enumerate(sorted(entries)):  # A sorted list is a valid heap.
        state.event_s[place], state.event_code[place] = at_s, code
    num.events = len(entries)


# The queues of the Capacity scheduler as arrays for the compiled loop, and the texts of their decisions.


def queues_of(policy: Policy) -> Capacity | None:
    """Return the policy's order if it is the compiled Capacity scheduler."""
    return compiled_axis(policy, "capacity")


def queue_tables(
    policy: Policy, jobs: Sequence[JobSpec], table: Table[plain.JobEntry]
) -> tuple[Table[plain.QueueEntry], Table[plain.MemberEntry]]:
    """Return queues by name and their users, both empty without any. Sets the jobs' column `member`."""
    order = queues_of(policy)
    if order is None:
        return records(0, plain.QueueEntry), records(0, plain.MemberEntry)
    queues = _sorted_queues(order, jobs)
    entries = records(len(queues), plain.QueueEntry)
    for entry, queue in zip(entries, queues, strict=False):
        entry.share, entry.max_share, entry.named = queue.share, queue.max_share, queue.named
        entry.user_percent, entry.user_factor = queue.user_percent, queue.user_factor
    members: dict[tuple[str, str], int] = {}
    table["member"][: len(jobs)] = [members.setdefault((job.queue, job.user), len(members)) for job in jobs]
    return entries, records(len(members), plain.MemberEntry)


def _sorted_queues(order: Capacity, jobs: Sequence[JobSpec]) -> list[Queue]:
    return [order.new_queue(name) for name in sorted({job.queue for job in jobs})]


class QueueTexts:
    """The reasons of decisions under the Capacity scheduler, which contain the slots that queues hold."""

    def __init__(self, order: Capacity, state: State, jobs: Sequence[JobSpec]) -> None:
        self._order = order
        self._queues = _sorted_queues(order, jobs)
        self._totals = [int(total) for total in state.num.slots]
        self._users = sorted({job.user for job in jobs})
        place = {user: number for number, user in enumerate(self._users)}
        self._user_of = np.array([place[job.user] for job in jobs] or [0])
        self._pool_of = state.jobs["pool"].astype(np.int64)

    def with_queues(self, rows: Values, known: Text) -> Text:
        """Return the reasons of the decisions in `rows`, given their parts that do not depend on the queues."""
        import pandas as pd

        reason = rows["reason"]
        is_wait = (reason == names.WAITS_LOCAL) | (reason == names.WAITS_RACK)
        who = 2 * self._pool_of[rows["job"]] + rows["kind"]
        who = np.where(reason == names.USER_FULL, self._user_of[rows["job"]], who)
        codes = known.codes.astype(np.int64)
        for values in (who, rows["held"], rows["unnamed"]):
            values = np.where(is_wait, 0, values.astype(np.int64))
            codes = pd.factorize(codes * (values.max(initial=0) + 1) + values)[0]
        first = np.zeros(codes.max(initial=-1) + 1, np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        return Text(
            codes, [self._text(rows[place], known.texts[known.codes[place]]) for place in first.tolist()]
        )

    def _text(self, row: plain.DecisionEntry, known: str) -> str:
        if row.reason in (names.WAITS_LOCAL, names.WAITS_RACK):
            return known
        if row.reason == names.USER_FULL:
            return f"{self._users[self._user_of[row.job]]}{USER_FULL}{row.held:.3g}"
        queue = self._queues[self._pool_of[row.job]]
        state = self._order.describe(queue, int(row.held), self._totals[row.kind], int(row.unnamed))
        return QUEUE_FULL + state if row.reason == names.QUEUE_FULL else f"{known}; {state}"


def queue_texts(policy: Policy, state: State, jobs: Sequence[JobSpec]) -> QueueTexts | None:
    order = queues_of(policy)
    return None if order is None else QueueTexts(order, state, jobs)
