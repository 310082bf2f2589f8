"""The core's handling of attempts and heartbeats (compiled). Mirrors its `ledger` and `core`, but nothing fails."""

from __future__ import annotations

from math import inf

from schedbed.scheduler.simulate.compiled import attempt_steps, timer_chains
from schedbed.scheduler.simulate.compiled.asking.asked_policy import (
    ANY_MAP,
    ANY_REDUCE,
    AWAITS,
    COMMITTED,
    HEARTBEAT,
    LISTENS,
    NOBODY,
    PASSED,
    REPORTED,
    STOPPED,
    SUBMITTED,
    ask,
    tell,
    tell_at,
)
from schedbed.scheduler.simulate.compiled.contended import contended
from schedbed.scheduler.simulate.compiled.heaps import passed, push_event, ring_behind, want
from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.offers import job_orders, slot_answers
from schedbed.scheduler.simulate.compiled.state import (
    COMMIT_EVENT,
    DUE_EVENT,
    IN_PLACE,
    JOB_OVER,
    REPLY_EVENT,
    State,
)


@compiled
def _record(state: State, task: int) -> None:
    state.attempt_rows[state.num.n_attempts] = task
    state.num.n_attempts += 1


@twin_of(
    "schedbed.scheduler.core.ledger:Ledger.reported",
    "schedbed.scheduler.core.ledger:Ledger._succeeded",
    "schedbed.scheduler.core.ledger:Ledger._map_done",
    "schedbed.scheduler.core.ledger:Ledger._commit",
)
@compiled
def reported(state: State, task: int, node: int, now_s: float) -> None:
    """Process the report of a success: a shuffled map is done at once, any other output is committed."""
    run = state.tasks[task]
    job = run.job
    tell(state, REPORTED, task)
    _release(state, task, node)
    if run.is_map and state.jobs[job].reduces > 0:
        if state.num.is_fluid:
            state.outputs[state.jobs[job].first + state.stages[2 * job].done] = task
        state.stages[2 * job].done += 1
        _record(state, task)
        open_reduces(state, job)
    else:
        state.commits[state.num.commits] = task
        push_event(state, now_s + state.sec.committed, COMMIT_EVENT, state.num.commits)
        state.num.commits += 1


@twin_of("schedbed.scheduler.core.core_tables:CoreTables._release")
@compiled
def _release(state: State, task: int, node: int) -> None:
    """Free the slot of the task's attempt, which has ended on the node. Mirrors `CoreTables._release`."""
    run, entry = state.tasks[task], state.nodes[node]
    kind = 0 if run.is_map else 1
    job_orders.add_running(state, run.job, kind, -1)
    state.num.live -= 1
    if run.is_map:
        entry.free_maps += 1
    else:
        entry.free_reduces += 1
        feed_less(state, node, run.job)
    job_orders.touch(state, 2 * run.job + kind)


@twin_of(
    "schedbed.scheduler.core.ledger:Ledger.end_attempt",
    "schedbed.scheduler.core.core_tables:CoreTables._run_again",
)
@compiled
def _stopped(state: State, task: int, node: int) -> None:
    """Process the report of a stopped attempt. The task runs again."""
    tell(state, STOPPED, task)
    _release(state, task, node)
    _record(state, task)
    state.num.stopped += 1
    state.is_started[task] = 0
    stage = 2 * state.tasks[task].job + (0 if state.tasks[task].is_map else 1)
    state.stages[stage].unstarted += 1
    stage_changed(state, stage)


@compiled
def hear_stops(state: State, now_s: float) -> None:
    """Ask a policy in Python which attempts it stops, and schedule heartbeats of their nodes."""
    known = state.answered[1]
    ask(state, NOBODY, LISTENS)
    for place in range(known, state.answered[1]):
        want(state, state.tasks[state.stops[place]].node, now_s)


@compiled
def _order_stops(state: State, node: int) -> int:
    """Add the orders to stop attempts on the node to its heartbeat reply, and return their number."""
    left = count = 0
    for place in range(state.answered[1]):
        task = state.stops[place]
        if state.tasks[task].node == node:
            state.reply_items[(state.num.reply_items + count) % len(state.reply_items)].job = -1 - task
            count += 1
        else:
            state.stops[left] = task
            left += 1
    state.answered[1] = left
    return count


@twin_of("schedbed.scheduler.core.ledger:Ledger.commit_succeeded")
@compiled
def committed(state: State, task: int) -> None:
    """Mark a task as done after its commit, and end its job after the last one."""
    job = state.tasks[task].job
    tell(state, COMMITTED, task)
    if attempt_steps.writes_file(state, task):
        attempt_steps.note_file(state, state.sec.now, task, IN_PLACE)
        state.jobs[job].wrote = 1
    stage = 2 * job + (0 if state.tasks[task].is_map else 1)
    state.stages[stage].done += 1
    state.jobs[job].output_bytes += state.costs[state.tasks[task].cost].output
    _record(state, task)
    stage_changed(state, stage)
    end_if_done(state, job)


# ---------------------------------------------------------------------- offers


@twin_of("schedbed.scheduler.core.ledger:Ledger.launch", "schedbed.scheduler.core.entities:Node.hold")
@compiled
def _launch(state: State, task: int, node: int, kind: int) -> None:
    """Launch a task, without a check: compiled policies choose only tasks that can start."""
    run, entry = state.tasks[task], state.nodes[node]
    job = run.job
    run.node = node
    state.is_started[task] = 1
    run.assigned = state.sec.now
    run.locality = _locality(state, task, node)
    state.num.live += 1
    if not state.jobs[job].started:
        state.jobs[job].started = 1
        state.jobs[job].start = state.sec.now
    if kind:
        entry.free_reduces -= 1
        feed_more(state, node, job)
    else:
        entry.free_maps -= 1
    slot_answers.launched(state, job, kind)
    stage = state.stages[2 * job + kind]
    stage.unstarted -= 1
    job_orders.add_running(state, job, kind, 1)
    stage_changed(state, 2 * job + kind)
    state.launched[state.num.launched] = task
    state.num.launched += 1


@compiled
def _locality(state: State, task: int, node: int) -> int:
    """Return the locality of a map on the node: 2 if it is node-local, 1 if rack-local, 0 if off-rack."""
    run, rack = state.tasks[task], state.nodes[node].rack
    for at in range(run.hosts_at, run.hosts_end):
        if state.host[at] == node:
            return 2
    for at in range(run.hosts_at, run.hosts_end):
        host = state.host[at]
        if host >= 0 and state.nodes[host].rack == rack:
            return 1
    return 0


@twin_of("schedbed.scheduler.core.core:Core._offer")
@compiled
def _offer(state: State, node: int, kind: int) -> None:
    """Offer the node's free slots for maps (`kind` 0) or reduces (1) to the policy. Mirrors `Core._offer`."""
    entry, num = state.nodes[node], state.num
    while num.ready[kind] > 0 and (
        num.ignores_slots or (entry.free_reduces if kind else entry.free_maps) > 0
    ):
        if num.asks != 0:
            task = ask(state, node, ANY_REDUCE if kind else ANY_MAP)
            if task < 0:
                return
            _launch(state, task, node, kind)
            open_reduces(state, state.tasks[task].job)  # It may have been split.
            continue
        job_orders.settle(state)
        task, reason, value = slot_answers.decide(state, node, kind)
        if task < 0:
            return
        slot_answers.decided(state, task, state.tasks[task].job, node, kind, reason, value)
        _launch(state, task, node, kind)


# ------------------------------------------------------------------- heartbeat


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._count",
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._reported",
)
@compiled
def _count(state: State, node: int, finished: int, now_s: float) -> None:
    """Update counters for ended attempts. After a map, heartbeats of nodes that need its output follow."""
    state.num.reported += finished
    for place in range(finished):
        task = state.finished[node, place]
        is_stopped = task < 0
        if is_stopped:
            task = -1 - task
        job = state.tasks[task].job
        if not state.tasks[task].is_map:
            state.nodes[node].reduces -= 1
            timer_chains.reduce_ended(state, job, node)
        elif not (is_stopped or state.jobs[job].ended) and (
            state.num.is_fluid or state.stages[2 * job].done == state.stages[2 * job].total
        ):
            timer_chains.fed(state, job, now_s)


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._act")
@compiled
def _act(state: State, node: int, told: int, now_s: float) -> None:
    """Start the reply's tasks, and schedule its arrival if it has anything for running attempts (`told`)."""
    entry, num = state.nodes[node], state.num
    for place in range(num.launched):
        task = state.launched[place]
        entry.running += 1
        if not state.tasks[task].is_map:
            entry.reduces += 1
            timer_chains.reduce_starts(state, state.tasks[task].job, node)
        if num.is_fluid:
            contended.launch(state, task, node, now_s)
        else:
            attempt_steps.launch(state, task, node, now_s)
    if told:
        reply = state.replies[num.replies % len(state.replies)]
        reply.node = node
        reply.first = num.reply_items
        reply.count = told
        push_event(state, now_s + state.sec.replied, REPLY_EVENT, num.replies)
        num.replies += 1
        num.reply_items += told


@compiled
def _usage(state: State, node: int, now_s: float) -> tuple[float, float, float, int]:
    if state.num.is_fluid:
        return contended.usage(state, node, now_s)
    return attempt_steps.usage(state, node, now_s)


@compiled
def _tell_usage(state: State, node: int, now_s: float) -> None:
    """Note a heartbeat for a policy in Python, and store the use also in the heartbeats table."""
    tell(state, HEARTBEAT, node)
    row, step = state.heartbeat_rows[state.num.n_heartbeats], state.steps[state.num.n_steps - 1]
    row.cpu, row.disk, row.net, row.memory = _usage(state, node, now_s)
    step.cpu, step.disk, step.net, step.memory = row.cpu, row.disk, row.net, row.memory


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._note")
@compiled
def _write_heartbeat(state: State, node: int, running: int, now_s: float) -> None:
    row = state.heartbeat_rows[state.num.n_heartbeats]
    state.num.n_heartbeats += 1
    row.t = now_s
    row.node = node
    row.reduces = state.nodes[node].reduces
    row.maps = running - state.nodes[node].reduces
    if not state.num.always:
        row.cpu, row.disk, row.net, row.memory = _usage(state, node, now_s)


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule.note")
@compiled
def note(state: State, node: int, now_s: float) -> None:
    """Append a heartbeats row without a heartbeat, at the start or end of the run."""
    if state.num.writes_heartbeats and not state.num.always:
        _write_heartbeat(state, node, state.nodes[node].running, now_s)


@twin_of(
    "schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._heartbeat",
    "schedbed.scheduler.core.core:Core.heartbeat",
)
@compiled
def heartbeat(state: State, node: int, now_s: float) -> None:
    """Process a heartbeat at the JobTracker, then the reply at the node."""
    num, entry = state.num, state.nodes[node]
    running, finished = entry.running, entry.finished
    if state.sec.due <= now_s:
        submit_due(state, now_s)
    if state.sec.passing < now_s:
        _pass(state, now_s)
    num.heartbeats += 1
    num.launched = 0
    for place in range(finished):
        task = state.finished[node, place]
        if task < 0:
            _stopped(state, -1 - task, node)
        else:
            reported(state, task, node, now_s)
    told = _order_stops(state, node) if state.answered[1] > 0 else 0
    state.sec.passing = inf
    if num.always:
        _tell_usage(state, node, now_s)
    elif num.hears_heartbeats:
        tell(state, HEARTBEAT, node)
    elif num.is_delay:
        slot_answers.waited(state, node, now_s)
    for kind in range(2):
        if num.ready[kind] > 0:
            _offer(state, node, kind)
    told = feed(state, node, told)
    _count(state, node, finished, now_s)
    entry.finished = 0
    if num.writes_heartbeats and (num.always or finished or num.launched):
        _write_heartbeat(state, node, running, now_s)
    _act(state, node, told, now_s)
    timer_chains.served(state, node, now_s)
    if (num.is_delay and num.skipped > 0) or (num.hears_heartbeats and ask(state, NOBODY, AWAITS) >= 0):
        state.sec.passing = now_s
        num.passing = passed(state)


@twin_of("schedbed.scheduler.simulate.heartbeats:HeartbeatSchedule._pass")
@compiled
def _pass(state: State, now_s: float) -> None:
    """Tell the policy about the skipped heartbeats before `now_s`, until it waits for no more.

    Mirrors `HeartbeatSchedule._pass`. A policy in Python is told about all of them.
    """
    since_s, node = state.sec.passing, state.num.passing
    while state.num.hears_heartbeats or state.num.skipped > 0:
        since_s, node = ring_behind(state, 0, since_s, node)
        if node < 0 or since_s >= now_s:
            return
        if state.num.hears_heartbeats:
            tell_at(state, since_s, PASSED, node)
        else:
            slot_answers.waited(state, node, since_s)


# The announcement of map outputs to nodes that run reduces of the same job (compiled).


@twin_of("schedbed.scheduler.core.ledger:Ledger._feed")
@compiled
def feed_more(state: State, node: int, job: int) -> None:
    """Count one more reduce of the job on the node. After the first, map outputs are announced to it."""
    entry = state.nodes[node]
    for place in range(entry.feeds):
        if state.feeds[node, place].job == job:
            state.feeds[node, place].reduces += 1
            return
    new = state.feeds[node, entry.feeds]
    new.job = job
    new.reduces = 1
    new.cursor = 0
    new.all_done = 0
    entry.feeds += 1


@twin_of("schedbed.scheduler.core.core_tables:CoreTables._feed_less")
@compiled
def feed_less(state: State, node: int, job: int) -> None:
    """Count one reduce fewer. Without any, map outputs are no longer announced."""
    entry = state.nodes[node]
    for place in range(entry.feeds):
        if state.feeds[node, place].job == job:
            state.feeds[node, place].reduces -= 1
            if state.feeds[node, place].reduces == 0:
                entry.feeds -= 1
                for at in range(place, entry.feeds):
                    old, new = state.feeds[node, at + 1], state.feeds[node, at]
                    new.job = old.job
                    new.reduces = old.reduces
                    new.cursor = old.cursor
                    new.all_done = old.all_done
            return


@twin_of("schedbed.scheduler.core.core:_feed")
@compiled
def feed(state: State, node: int, count: int) -> int:
    """Add new map outputs to the reply for each job with reduces here. Return the number of its items.

    Without contention, a job's outputs are announced only when all its maps are done.
    """
    fluid_too = state.num.is_fluid > 0
    for place in range(state.nodes[node].feeds):
        feed = state.feeds[node, place]
        maps = state.stages[2 * feed.job]
        done = maps.done == maps.total
        if (done and not feed.all_done) or (fluid_too and feed.cursor < maps.done):
            news = state.reply_items[(state.num.reply_items + count) % len(state.reply_items)]
            news.job = feed.job
            news.since = feed.cursor
            news.until = maps.done
            news.all_done = 1 if done else 0
            feed.cursor = maps.done
            feed.all_done = news.all_done
            count += 1
    return count


# The scheduler core's handling of jobs and their stages (compiled).
#
# Mirrors `JobTables` of `scheduler.core.ledger`. Unlike there, no job fails.


@twin_of("schedbed.scheduler.core.core_tables:CoreTables._changed")
@compiled
def stage_changed(state: State, stage: int) -> None:
    """Note whether a stage has tasks to start, and mark it for the order of jobs."""
    entry = state.stages[stage]
    ready = entry.unstarted > 0 and entry.open > 0
    if ready != (entry.ready > 0):
        entry.ready = 1 if ready else 0
        state.num.ready[stage & 1] += 1 if ready else -1
    job_orders.touch(state, stage)


@twin_of("schedbed.scheduler.core.ledger:JobTables._open_reduces")
@compiled
def open_reduces(state: State, job: int) -> None:
    """Let the job's reduces start if enough of its maps are done. Mirrors `JobTables._open_reduces`."""
    reduces, maps = state.stages[2 * job + 1], state.stages[2 * job]
    if reduces.total > 0:
        opened = maps.done >= state.sec.slowstart * maps.total
        if opened != (reduces.open > 0):
            reduces.open = 1 if opened else 0
            stage_changed(state, 2 * job + 1)


@twin_of(
    "schedbed.scheduler.core.ledger:JobTables._end_if_done",
    "schedbed.scheduler.core.ledger:JobTables.end_job",
)
@compiled
def end_if_done(state: State, job: int) -> None:
    """End the job if its last stage is done."""
    last = 2 * job + 1 if state.jobs[job].reduces > 0 else 2 * job
    if state.stages[last].done < state.stages[last].total:
        return
    state.jobs[job].ended = 1
    state.jobs[job].finish = state.sec.now
    state.num.active_jobs -= 1
    stage_changed(state, 2 * job)
    stage_changed(state, 2 * job + 1)
    state.job_rows[state.num.n_jobs] = job
    state.num.n_jobs += 1
    if state.num.is_capacity:
        slot_answers.finished(state, job)
    if state.jobs[job].wrote:
        attempt_steps.note_file(state, state.sec.now, job, JOB_OVER)


@twin_of(
    "schedbed.scheduler.simulate.simulation:Simulation.submit_due",
    "schedbed.scheduler.core.ledger:JobTables.add_job",
)
@compiled
def submit_due(state: State, now_s: float) -> None:
    """Submit due jobs, and schedule the next submission."""
    num = state.num
    while num.next_job < num.jobs and state.jobs[num.next_job].submit <= now_s:
        job = num.next_job
        num.next_job += 1
        num.active_jobs += 1
        tell(state, SUBMITTED, job)
        for stage in (2 * job, 2 * job + 1):
            state.stages[stage].unstarted = state.stages[stage].total
        if num.is_capacity:
            slot_answers.submitted(state, job)
        open_reduces(state, job)
        stage_changed(state, 2 * job)
        stage_changed(state, 2 * job + 1)
        end_if_done(state, job)
    state.sec.due = inf
    if num.next_job < num.jobs:
        state.sec.due = state.jobs[num.next_job].submit
        push_event(state, max(state.sec.due, now_s), DUE_EVENT, 0)
