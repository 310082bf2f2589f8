"""Checks that the core's state is consistent. The checks change nothing."""

from __future__ import annotations

from schedbed.scheduler.core.entities import LIVE, MAP, Job, Node, Stage, Task
from schedbed.scheduler.core.ledger import Ledger
from schedbed.scheduler.core.states import JobState, TaskState
from schedbed.tasks.specs import TaskKind


def check_tables(ledger: Ledger) -> None:
    """Raise AssertionError if the core's state is inconsistent.

    The checks cover the resources of nodes (used + free = capacity), counters, indices, and task states.
    """
    for node in ledger.nodes.values():
        _check_node(ledger, node)
    for job in ledger.jobs.values():
        _check_job(job)
    _check_totals(ledger)


def _check_node(ledger: Ledger, node: Node) -> None:
    spec, held = node.spec, list(node.attempts.values())
    maps = [attempt for attempt in held if attempt.task.kind is MAP]
    reduces = [attempt for attempt in held if attempt.task.kind is not MAP]
    demands = [attempt.task.stage.demand for attempt in held]
    assert (node.running_maps, node.running_reduces) == (len(maps), len(reduces)), node.node
    assert node.free_maps + len(maps) == spec.map_slots, (node.node, node.free_maps, len(maps))
    assert node.free_reduces + len(reduces) == spec.reduce_slots, (node.node, node.free_reduces)
    assert node.free_memory_bytes + sum(d.memory_bytes for d in demands) == spec.memory_bytes, node.node
    assert node.free_vcores + sum(d.vcores for d in demands) == spec.cores, node.node
    limits = ledger.limits
    assert not limits.slots or min(node.free_maps, node.free_reduces) >= 0, node.node
    assert not limits.memory or node.free_memory_bytes >= 0, node.node
    assert not limits.vcores or node.free_vcores >= 0, node.node
    assert node.alive or not (held or node.feeds or node.outbox), node.node
    for attempt in held:
        assert attempt.state in LIVE and attempt.node is node, attempt.attempt
        assert attempt.task.stage.job.attempts[attempt.attempt] is attempt, attempt.attempt
    for job_id, feed in node.feeds.items():
        running = [attempt for attempt in reduces if attempt.task.stage.job is feed.job]
        assert feed.job.job == job_id and feed.reduces == len(running) > 0, (node.node, job_id)


def _check_job(job: Job) -> None:
    assert job.state is JobState.RUNNING, job.job
    for stage in (job.maps, job.reduces):
        _check_stage(stage)
    if job.reduces.total:
        winners = [task.winner for task in job.maps.tasks if task.winner is not None]
        assert all(winner.node.alive and winner.node.node in job.nodes for winner in winners), job.job
        told = {output.index: output for output in job.outputs}
        there = [(output.attempt, output.node) for output in told.values() if not output.lost]
        assert sorted(there) == sorted((winner.attempt, winner.node.node) for winner in winners), job.job


def _check_stage(stage: Stage) -> None:
    job, tasks = stage.job.job, stage.tasks
    live = [attempt for task in tasks for attempt in task.attempts]
    states = [task.state for task in tasks]
    assert len(tasks) == stage.total, job
    assert stage.unstarted == states.count(TaskState.UNSTARTED), (job, stage.label)
    assert stage.done == states.count(TaskState.DONE), (job, stage.label)
    assert stage.running == len(live), (job, stage.label)
    assert stage.killing == sum(attempt.state == "killing" for attempt in live), (job, stage.label)
    assert stage.ready == (stage.open and stage.unstarted > 0), (job, stage.label)
    if stage.kind is MAP:
        _check_parts(stage)
    for task in tasks:
        _check_task(task)
    for attempt in live:
        assert attempt.node.attempts[attempt.attempt] is attempt, attempt.attempt


def _check_parts(stage: Stage) -> None:
    """Assert that the tasks of the stage's job read each split once: one whole task or exactly two parts."""
    splits, tasks = stage.job.spec.splits, stage.tasks
    rests: dict[int, Task] = {}
    for task in tasks[len(splits) :]:
        assert task.part is not None and task.after is not None and task.after not in rests, task.task
        rests[task.after] = task
    for split, task in zip(splits, tasks, strict=False):
        ends = [task.split.offset + task.split.length]
        rest = rests.pop(split.index, None)
        assert (rest is None) == (task.part is None) and task.after is None, task.task
        if rest is not None:
            assert rest.split.offset == ends[0] and min(rest.split.length, task.split.length) > 0, rest.task
            ends.append(rest.split.offset + rest.split.length)
        assert (task.split.offset, ends[-1]) == (split.offset, split.offset + split.length), task.task
    assert not rests, list(rests)


def _check_task(task: Task) -> None:
    state = task.state
    if state is TaskState.DONE and task.winner is not None and not task.attempts:
        return  # Most tasks of a job: the assertions below hold.
    won = state in (TaskState.DONE, TaskState.COMMITTING)
    assert won == (task.winner is not None), task.task
    assert all(attempt.task is task for attempt in task.attempts), task.task
    assert state is not TaskState.RUNNING or task.attempts, task.task
    assert state is TaskState.RUNNING or all(a.state == "killing" for a in task.attempts), task.task
    assert state is not TaskState.UNSTARTED or task.stage.index.holds(task), task.task


def _check_totals(ledger: Ledger) -> None:
    alive = [node for node in ledger.nodes.values() if node.alive]
    assert ledger.map_slots == sum(node.spec.map_slots for node in alive)
    assert ledger.reduce_slots == sum(node.spec.reduce_slots for node in alive)
    assert ledger.live_attempts == sum(len(node.attempts) for node in alive)
    jobs = [*ledger.jobs.values(), *ledger.ended.values()]
    assert ledger.ready_maps == sum(job.maps.ready for job in jobs)
    assert ledger.ready_reduces == sum(job.reduces.ready for job in jobs)
    for kind in TaskKind:
        stages = [job.stage(kind) for job in jobs]
        for (name, tally_kind), tally in [*ledger.users.items(), *ledger.queues.items()]:
            if tally_kind is kind:
                mine = [stage for stage in stages if stage.user is tally or stage.queue is tally]
                assert tally.running == sum(stage.running for stage in mine), name
                assert tally.killing == sum(stage.killing for stage in mine), name
                assert tally.unstarted == sum(stage.unstarted for stage in mine), name
