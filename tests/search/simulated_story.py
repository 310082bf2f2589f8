"""Simulates a test scenario, with checks after every event."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import BlockSettings, ClusterSpec, DynamicReplicas, NodeSpec
from schedbed.cluster.virtual.exact.exact import ExactEmulation
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.scheduler.core.rows import Commit, NodeLost
from schedbed.scheduler.core.states import JobState
from schedbed.scheduler.event_log import EventList
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.policy import HeartbeatRead
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.simulate.setup import Setup, Stuck, Timing
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import Demand, Priority
from schedbed.tasks.workloads.planned import InputFile, PlannedJob
from tests.search.accidents import BAD_COMMIT, MIB, Accidents, StoryCosts
from tests.search.checks import Rows, check_slots, check_tables, watch
from tests.search.disks import Disks
from tests.search.oracles.arguments import noted_arguments
from tests.search.oracles.block_books import check_blocks
from tests.search.oracles.lookups import watched_lookups
from tests.search.oracles.placement_rule import watched_places
from tests.search.policies import made
from tests.search.postman import Postman, carried_by
from tests.search.story import Story, StoryJob
from tests.search.violation import Violation, hold

OWN_FAULTS = ("bad_node", "lose_output", "kill_job")
HIDE_BLOCKS = (
    "kill",
    "freeze",
    "restart_namenode",
    "kill_tracker",
    "cut_off",
    "corrupt_replica",
    "delete_replica",
)
REPAIR_S = 90.0  # A lost copy is given up after 60 s.
LAST_JOB = "job_9999"
AUDIT_EVERY = 16  # Steps without new rows between audits.
BLOCKS_EVERY = 16

WITH_JOB = tuple(f"job {state.value}" for state in JobState)
"""Reasons of attempts killed with their job; their uncommitted files are deleted with the job's folder."""


@dataclass(slots=True)
class SimulatedStory:
    """A test scenario after its simulation, with all rows and the objects that checks need."""

    story: Story
    rows: Rows
    sim: Simulation
    accidents: Accidents
    postman: Postman
    committed: dict[tuple[str, str], str]  # Committed attempts by job and file.
    killed: dict[str, float]  # Time of the kill by job, for jobs that had not ended.
    disks: Disks | None


def simulate(
    story: Story, *, audit: bool = True, process_all_heartbeats: bool = False, snapshots: bool = False
) -> SimulatedStory:
    """Simulate a test scenario to its end. Raises Violation if a check fails or the code under test raises.

    Without `audit` neither the core's tables nor the policy's answers are checked. With `snapshots` the JobTracker
    takes a snapshot after every few events, and policies are not compared with references, since these cannot be
    saved in a snapshot.
    """
    every = patch.object(EventList, "EVERY", 5 + story.seed % 40 if snapshots else EventList.EVERY)
    try:  # A simulation that begins again would replace the objects that are watched.
        with every, patch.object(Simulation, "begin_again", side_effect=HeartbeatRead):
            return _simulate(story, audit, process_all_heartbeats, snapshots)
    except HeartbeatRead:
        return simulate(story, audit=audit, process_all_heartbeats=True, snapshots=snapshots)
    except Violation:
        raise
    except Stuck as error:
        raise Violation("every job ends", str(error)) from error
    except Exception as error:
        raise Violation(f"no {type(error).__name__}", str(error)) from error


def _simulate(story: Story, audit: bool, process_all_heartbeats: bool, snapshots: bool) -> SimulatedStory:
    postman = Postman(story, audits=audit)
    with ExitStack() as stack:
        stack.enter_context(carried_by(postman))
        if audit and not snapshots:
            stack.enter_context(watched_places())
            stack.enter_context(watched_lookups())
        return _simulate_with(postman, story, audit, process_all_heartbeats, snapshots)


def _simulate_with(
    postman: Postman, story: Story, audit: bool, process_all_heartbeats: bool, snapshots: bool
) -> SimulatedStory:
    rows = Rows(story.faults, audits=audit, avoidance=postman.avoidance)
    setup = make_setup(story, references=audit and not snapshots)
    setup = replace(setup, process_all_heartbeats=process_all_heartbeats or bool(story.lost_orders))
    sim = Simulation(setup, rows)
    accidents: Any = sim.emulation
    rows.sim = sim
    postman.news = rows.news
    disks = Disks(sim) if story.disks else None
    finished = SimulatedStory(story, rows, sim, accidents, postman, {}, {}, disks)
    _plan_kills(finished)
    _watch_commits(finished)
    _watch_recovery(finished)
    with disks.followed() if disks is not None else nullcontext():
        _run_to_end(finished, audit)
    return finished


def _run_to_end(finished: SimulatedStory, audit: bool) -> None:
    sim, rows, accidents = finished.sim, finished.rows, finished.accidents
    limit_s, quiet_s, seen, steps = patience_s(finished.story), quiet_limit_s(finished.story), 0, 0
    last_s = begin_s(finished.story) + REPAIR_S
    restarted = any(fault.kind == "restart_namenode" for fault in finished.story.faults)
    while sim.step():
        steps += 1
        events = len(rows.decisions) + len(rows.attempts) + len(rows.jobs)
        if audit:
            check_slots(sim, accidents)
            if sim.master.is_up and (events != seen or steps % AUDIT_EVERY == 0):
                check_tables(sim)
                rows.avoidance.check(sim.core.ledger)
                if steps % BLOCKS_EVERY == 0:
                    check_blocks(sim.storage.names, restarted=restarted)
        if events != seen:
            seen, last_s = events, max(sim.now_s, last_s)
        if sim.now_s > min(limit_s, last_s + quiet_s):
            raise Violation("every job ends", f"at {sim.now_s} s: {list(sim.core._ledger.jobs)}")


def patience_s(story: Story) -> float:
    """Return the time by which every job must have ended.

    It allows for all tasks one after another, four attempts each, on the slowest node.
    """
    slowest = min(node.speed for node in story.nodes)
    work_s = 0.0
    for job in story.jobs:
        work_s += job.maps * (20.0 + 4 * (1.5 * job.map_s + job.input_mib / 10) / slowest)
        work_s += job.reduces * (20.0 + 4 * (1.5 * job.reduce_s + job.output_mib / 10) / slowest)
    return begin_s(story) + REPAIR_S + work_s + 60.0


def quiet_limit_s(story: Story) -> float:
    """Return the longest allowed time without a launch or an end, in seconds.

    It is ten times the longest task's duration, plus a minute.
    """
    slowest = min(node.speed for node in story.nodes)
    tasks_s = [
        1.5 * max(job.map_s, job.reduce_s) + (job.input_mib + job.output_mib) / 10 for job in story.jobs
    ]
    return 60.0 + 10 * max(tasks_s, default=0.0) / slowest


def begin_s(story: Story) -> float:
    """Return the time by which all jobs are submitted and the last fault has ended."""
    return max([calm_s(story), *(job.submit_s for job in story.jobs)])


def calm_s(story: Story) -> float:
    """Return the time at which the last fault ends."""
    return max((fault.until_s or fault.at_s for fault in story.faults), default=0.0)


# ------------------------------------------------------------------ the setup


def make_policy(story: Story) -> Any:
    """Return a new policy as the test scenario declares it, without comparing its answers with references."""
    return with_speculation(made(story.policy), story.speculation)


def watched_policy(story: Story) -> Any:
    """Return a new policy whose answers are compared with references, which are second implementations."""
    with noted_arguments():
        return watch(make_policy(story))


def make_setup(story: Story, *, references: bool = True) -> Setup:
    """Return the simulator's setup for a test scenario.

    A small last job is added after faults that hide blocks, when the block store has had time for repairs.
    """
    planned = [_job(name, job, story) for name, job in zip(story.job_names(), story.jobs, strict=True)]
    if story.disks or any(fault.kind in HIDE_BLOCKS for fault in story.faults):
        planned.append(_job(LAST_JOB, StoryJob(submit_s=calm_s(story) + REPAIR_S, map_s=0.0), story))
    files = {
        job.input: InputFile(path=job.input, source="filler", blocks=(known.input_mib * MIB,) * known.maps)
        for job, known in zip(planned, story.jobs, strict=False)
        if job.input is not None
    }
    return Setup(
        cluster=_cluster(story),
        jobs=planned,
        files=list(files.values()),
        seed=story.seed,
        policy=lambda: watched_policy(story) if references else make_policy(story),
        costs=StoryCosts(story),
        faults=[_fault(fault) for fault in story.faults if fault.kind not in OWN_FAULTS],
        contention=story.contention,
        heartbeat_rows=False,
        skip_rows=story.skip_rows,
        framework=Framework(
            maps_per_heartbeat=story.per_heartbeat, reduces_per_heartbeat=story.per_heartbeat
        ),
        timing=Timing(commit_s=story.commit_s),
        emulation=lambda setup, store: _emulation(story, setup, store),
    )


def _emulation(story: Story, setup: Setup, store: Any) -> Any:
    if story.contention:
        inner: Any = FluidEmulation(store, latencies=setup.latencies, keeps_consumed=True)
    else:
        inner = ExactEmulation(store, keeps_consumed=True)
    return Accidents(inner, story)


def _cluster(story: Story) -> ClusterSpec:
    nodes = tuple(
        NodeSpec(
            node=name,
            rack=f"r{node.rack}",
            cores=node.cores,
            core_speed=node.speed,
            memory_bytes=node.memory_mib * MIB,
            disk_bps=1e8 * node.speed,
            network_bps=1e8 * node.speed,
            map_slots=node.map_slots,
            reduce_slots=node.reduce_slots,
        )
        for name, node in zip(story.node_names(), story.nodes, strict=True)
    )
    blocks = BlockSettings(size_bytes=16 * MIB, replication=story.replication, **_scheme(story.scheme))
    return ClusterSpec(nodes=nodes, heartbeat_s=story.heartbeat_s, blocks=blocks)


def _scheme(name: str) -> dict[str, Any]:
    """Return the block settings of a scheme that creates replicas while jobs run."""
    if name == "dare":
        return {"keep_share": 0.5, "keep_budget": 0.5}
    if name:
        return {"replicas": DynamicReplicas(scheme=name, epoch_s=8.0, budget=1.0)}
    return {}


def _input(name: str, job: StoryJob, shared: bool) -> str | None:
    if not job.input_mib or not job.maps:
        return None
    return f"/in/shared-{job.maps}x{job.input_mib}" if shared else f"/in/{name}"


def _job(name: str, job: StoryJob, story: Story) -> PlannedJob:
    demand = Demand(memory_bytes=job.memory_mib * MIB, vcores=job.vcores)
    return PlannedJob(
        job=name,
        name=f"story of {name[4:]}",
        app="synthetic",
        user=job.user,
        queue=job.queue,
        priority=Priority(job.priority),
        submit_s=job.submit_s,
        deadline_s=None if job.deadline_s is None else job.submit_s + job.deadline_s,
        input=_input(name, job, story.shared),
        maps=job.maps,
        reduces=job.reduces,
        map_demand=demand,
        reduce_demand=demand,
    )


def _fault(fault: Any) -> PlannedFault:
    return PlannedFault(
        at_s=fault.at_s,
        kind=fault.kind,
        nodes=fault.nodes,
        until_s=fault.until_s,
        cpu=fault.factor,
        disk=fault.factor,
        network=fault.factor,
        share=fault.share,
        by_s=fault.by_s,
        luck=fault.luck,
    )


# ------------------------------------------------------------- what is watched


def _watch_commits(finished: SimulatedStory) -> None:
    """Check that each output is committed once, and make some first commits fail as the scenario says."""
    storage: Any
    story, storage, committed = finished.story, finished.sim.storage, finished.committed
    inner, forget = storage.commit, storage.job_ended

    def commit(now_s: float, job: str, attempt: str, file: Any) -> str:
        unlucky = chance(story.seed, "commit", attempt).random() < story.commits_failing
        if unlucky and attempt.endswith("_0"):
            return BAD_COMMIT
        failure = inner(now_s, job, attempt, file)
        if not failure and story.disks:
            again = inner(now_s, job, attempt, file)
            hold(not again, "an output is put into place again", f"{attempt} at {now_s} s: {again}")
        if not failure:
            name = file if isinstance(file, str) else f"part-{file:05d}"
            known = committed.setdefault((job, name), attempt)
            hold(known == attempt, "a task commits once", f"{attempt} at {now_s} s after {known}")
        return failure

    def job_ended(now_s: float, job: str) -> None:
        """Check that uncommitted files of an ended job belong to no failed or killed attempt.

        Attempts that were killed because their job ended are excepted.
        """
        state = finished.rows.state_by_attempt
        with_job = {
            row.attempt for row in finished.rows.attempts if row.job == job and row.reason in WITH_JOB
        }
        for attempt in set(aside(finished, job)) - with_job:
            seen = f"{attempt} at {now_s} s: {state.get(attempt)}"
            hold(state.get(attempt) not in ("failed", "killed"), "what is not wanted is deleted", seen)
        forget(now_s, job)

    storage.commit = commit
    storage.job_ended = job_ended


def _plan_kills(finished: SimulatedStory) -> None:
    """Schedule the test scenario's orders to kill jobs; a crashed JobTracker does not receive them."""
    sim: Any = finished.sim
    kills = [fault for fault in finished.story.faults if fault.kind == "kill_job"]

    def kill(now_s: float, number: int) -> None:
        names = finished.story.job_names()
        job = names[int(kills[number].luck * len(names))]
        if sim.master.is_up:
            if all(row.job != job for row in finished.rows.jobs):
                finished.killed[job] = now_s
            sim.master.kill(now_s, [job], "killed by its user")
            hold(job not in sim.core.ledger.jobs, "a job that is killed ends", f"{job} at {now_s} s")
            sim._look_for_jobs()
            sim.core_changed(now_s)

    sim._handlers.append(kill)
    for number, fault in enumerate(kills):
        sim.queue.push(fault.at_s, len(sim._handlers) - 1, number)


def aside(finished: SimulatedStory, job: str) -> list[str]:
    """Return the attempts of a job that have written a file which is not committed yet."""
    try:
        return [child["name"] for child in finished.sim.storage.names.list(f"/out/{job}/_temporary")]
    except BlockStoreError:
        return []


def _watch_recovery(finished: SimulatedStory) -> None:
    """Check that a recovered JobTracker has the same state as before its crash."""
    master = finished.sim.master
    inner = master.recover

    def recover(now_s: float) -> Any:
        before = master.core.status()
        finished.postman.replays = True
        effects = inner(now_s)
        finished.postman.replays = False
        hold(master.core.status() == before, "a replay gives the same state", "after a crash")
        finished.postman.rules.recovered(master.core, now_s)
        _check_effects(master.core.ledger, effects)
        return effects

    master.recover = recover


def _check_effects(ledger: Any, effects: list[Any]) -> None:
    """Check the effects that are returned after a crash of the JobTracker.

    Commits in progress at the crash are ordered again, each once, and no live node is reported as lost.
    """
    again = {effect.attempt for effect in effects if isinstance(effect, Commit)}
    check = "what may not have been done is done again"
    hold(again == set(ledger.committing), check, f"{again} instead of {set(ledger.committing)}")
    lost = [effect.node for effect in effects if isinstance(effect, NodeLost)]
    hold(not any(ledger.nodes[node].alive for node in lost), check, f"{lost} are lost")
    hold(not ledger.effects, check, f"{ledger.effects} twice")
