"""Checks after the end of a test scenario.

Outputs must be complete, nothing may be left over, replicas must be restored, and a replay must give the same
state.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.cluster.messages import ForgetJob
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.tasks.specs import TaskKind
from tests.search.accidents import INJECTED
from tests.search.checks import LAUNCHES, Rows
from tests.search.oracles.forgetting import check_ended, kept_jobs
from tests.search.policies import OWN
from tests.search.postman import replay
from tests.search.simulated_story import HIDE_BLOCKS, LAST_JOB, SimulatedStory, make_policy
from tests.search.story import StoryJob
from tests.search.violation import hold

MAX_ATTEMPTS = 4
SOON_S = 20.0
"""Seconds after which an order has reached every node that is up."""


def check_outcome(finished: SimulatedStory) -> None:
    """Run all checks after the end of a test scenario. Raises Violation for the first that fails."""
    check_rows(finished)
    launches = sum(row.answer in LAUNCHES for row in finished.rows.decisions)
    finished.postman.rules.check_counts(finished.sim.core, launches)
    for name, job in zip(finished.story.job_names(), finished.story.jobs, strict=True):
        state = next(row.state for row in finished.rows.jobs if row.job == name)
        finish_s = next(row.finish for row in finished.rows.jobs if row.job == name)
        by_order = finished.killed.get(name) == finish_s
        # A job without tasks succeeds when it is submitted, even by a kill before its submit time.
        done = by_order and not job.maps and not job.reduces and finish_s < job.submit_s
        killed = by_order and not (done and state == "succeeded")
        hold((state == "killed") is killed, "a job that is killed ends", name)
        if state == "killed":
            pass
        elif state == "succeeded":
            check_records(finished, name, job)
        else:
            check_excuse(finished, name)
        check_files(finished, name, job, state)
    check_tries(finished)
    check_replicas(finished)
    check_leftovers(finished)
    check_replay(finished)
    check_forgotten(finished)


def check_rows(finished: SimulatedStory) -> None:
    """Check that each job and each launched attempt has ended once."""
    wanted = sorted(finished.story.job_names())
    found = sorted(row.job for row in finished.rows.jobs if row.job != LAST_JOB)
    hold(found == wanted, "every job ends once", found)
    launched = [row for row in finished.rows.decisions if row.answer in LAUNCHES]
    skips = any(row.answer == "skip" for row in finished.rows.decisions)
    hold(finished.story.skip_rows or not skips, "skips have rows only when wanted", "")
    hold(len(launched) == len(finished.rows.attempts), "every launch ends", len(launched))


def check_tries(finished: SimulatedStory) -> None:
    """Check that no task fails more than four times, and that the fourth failure ends its job."""
    failures = Counter((row.job, row.task) for row in finished.rows.attempts if row.state == "failed")
    state = {row.job: row.state for row in finished.rows.jobs}
    for (job, task), count in failures.items():
        hold(count <= MAX_ATTEMPTS, "a task fails four times at most", f"{task}: {count}")
        ended = count < MAX_ATTEMPTS or state[job] != "succeeded"
        hold(ended, "a task fails four times at most", f"{task} failed {count} times, its job {state[job]}")


def check_leftovers(finished: SimulatedStory) -> None:
    """Check that nodes that are up have no map outputs or replicas of jobs that ended long before."""
    last = next((row for row in finished.rows.jobs if row.job == LAST_JOB), None)
    if last is None:
        return
    long_ago = {row.job for row in finished.rows.jobs if row.finish < last.submit - SOON_S}
    for node in finished.sim.nodes:
        if node.up and not node.frozen:
            # Orders that wait for a skipped heartbeat count as carried out.
            orders = finished.sim.core.ledger.nodes[node.node].outbox
            ordered = {order.job for order in orders if isinstance(order, ForgetJob)}
            left = long_ago.intersection(finished.accidents.left_outputs(node.node)) - ordered
            hold(not left, "map outputs of ended jobs are forgotten", f"{node.node}: {left}")
    if finished.disks is not None:
        finished.disks.check(finished.story.replication)


def check_excuse(finished: SimulatedStory, job: str) -> None:
    """Check that a failed job has a task that failed four times because of injected faults."""
    faults = {fault.kind for fault in finished.story.faults}
    failures: dict[str, list[str]] = {}
    for row in finished.rows.attempts:
        if row.job == job and row.state == "failed":
            failures.setdefault(row.task, []).append(row.reason)
    used_up = [reasons for reasons in failures.values() if len(reasons) >= MAX_ATTEMPTS]
    hold(used_up, "a job fails after four failures of a task", failures)

    def excused(reason: str) -> bool:
        if any(injected in reason for injected in INJECTED):
            return True
        if "gave up" in reason:
            return bool(faults & {"partition", "freeze", "loss"})
        if "killed by signal" in reason or reason == "disk full":
            return bool(faults & {"kill_attempt", "fill_disk"})
        if any(
            each in reason for each in ("no replica", "no node could take", "commit failed", "was not stored")
        ):
            return bool(faults & {*HIDE_BLOCKS, "partition", "loss"})
        return False

    mine = [reasons for reasons in used_up if all(map(excused, reasons))]
    hold(mine, "a job that can end well does", used_up)


def check_records(finished: SimulatedStory, name: str, job: StoryJob) -> None:
    """Check that each input record is in the output once, by the ranges of the maps that were read."""
    committed = {file: attempt for (owner, file), attempt in finished.committed.items() if owner == name}
    if not job.reduces:
        _check_cover(finished, name, job, list(committed.values()))
        return
    parts = [f"part-{index:05d}" for index in range(job.reduces)]
    hold(sorted(committed) == parts, "every part is there", f"{name}: {committed}")
    for attempt in committed.values():
        consumed = finished.accidents.consumed.get(attempt, {})
        _check_cover(finished, name, job, list(consumed.values()))


def _check_cover(finished: SimulatedStory, name: str, job: StoryJob, maps: list[str]) -> None:
    """Check that all these maps succeeded, and that their ranges cover the input exactly once."""
    rows = {row.attempt: row for row in finished.rows.attempts}
    for attempt in maps:
        row = rows.get(attempt)
        hold(row is not None and row.state == "succeeded", "only good outputs are used", attempt)
    plans = [finished.accidents.plans[attempt] for attempt in maps]
    hold(all(plan.job == name and plan.kind is TaskKind.MAP for plan in plans), "own maps are read", maps)
    if not job.input_mib:
        indices = sorted(plan.index for plan in plans)
        hold(indices == list(range(job.maps)), "no record is lost or doubled", f"{name}: {indices}")
        return
    end = 0
    for row in sorted((rows[attempt] for attempt in maps), key=lambda row: row.offset):
        hold(row.offset == end, "no record is lost or doubled", f"{row.attempt} begins at {row.offset}")
        end += row.length
        read = sum(length for _, length in finished.accidents.plans[row.attempt].blocks)
        hold(read == row.length, "a map reads what it owns", f"{row.attempt}: {read}")
    hold(end == job.maps * job.input_mib * 2**20, "no record is lost or doubled", f"{name} ends at {end}")


def check_files(finished: SimulatedStory, name: str, job: StoryJob, state: str) -> None:
    """Check that the job's output folder has the committed files and no others."""
    try:
        found = [child["name"] for child in finished.sim.storage.names.list(f"/out/{name}")]
    except BlockStoreError:
        found = []
    wanted = sorted(file for owner, file in finished.committed if owner == name and job.output_mib)
    if state == "succeeded":
        hold(found == wanted, "outputs are in place and nothing else", f"{name}: {found}")
    else:
        hold(set(found) <= set(wanted), "nothing is left of a failed job", f"{name}: {found}")


def check_replicas(finished: SimulatedStory) -> None:
    """Check that every block with a good replica has the wanted number, or one on each node."""
    if not any(row.job == LAST_JOB for row in finished.rows.jobs):
        return
    names = finished.sim.storage.names
    nodes = len(names.nodes())
    for block in names.fsck()["under_replicated"]:
        good = len(names.holders(block))
        hold(good >= min(nodes, finished.story.replication), "replicas are restored", f"{block} has {good}")
    if not any(
        fault.kind in ("kill", "corrupt_replica", "delete_replica") for fault in finished.story.faults
    ):
        missing = names.fsck()["missing"]
        hold(not missing, "replicas are found again", missing)


def check_forgotten(finished: SimulatedStory) -> None:
    """Check that the core and the policy have dropped all data of ended jobs, after one more tick.

    Users' policies are not checked.
    """
    master: Any = finished.sim.master
    ledger = master.core.ledger
    check_ended(ledger)
    hold(not any(job.attempts for job in ledger.ended.values()), "an ended job is small", "attempts are left")
    hold(not ledger.avoiding and not ledger.committing, "an ended job is small", ledger.avoiding)
    ledger.settle()
    master.core.tick(finished.sim.now_s)
    if finished.story.policy not in OWN:
        kept_of = kept_jobs(master.policy)
        hold(not kept_of, "a policy forgets jobs that have ended", kept_of)


def check_replay(finished: SimulatedStory) -> None:
    """Check that a replay of the journal in a new core gives the same rows and the same state."""
    again = Rows()
    setup = finished.sim.setup
    policy = make_policy(finished.story)
    most = finished.story.per_heartbeat
    config = CoreConfig(
        heartbeat_s=setup.cluster.heartbeat_s,
        records_skips=setup.skip_rows,
        maps_per_heartbeat=most,
        reduces_per_heartbeat=most,
    )
    core = Core(config, policy, again, seed=setup.seed)
    replay(finished.postman.journal, core, policy)
    hold(again.history() == finished.rows.history(), "a replay gives the same rows", "")
    hold(core.status() == finished.sim.core.status(), "a replay gives the same state", "")
