"""What must hold when a story has ended: outputs whole and in place, nothing left over, replicas restored, and
the journal replays to the same."""

from __future__ import annotations

from schedbed.cluster.blocks.block_errors import BlockStoreError
from schedbed.scheduler.core.core import Core, CoreConfig
from schedbed.tasks.specs import TaskKind
from tests.search.accidents import INJECTED
from tests.search.checks import LAUNCHES, Rows
from tests.search.play import HIDE_BLOCKS, LAST_JOB, Played
from tests.search.postman import replay
from tests.search.story import StoryJob
from tests.search.violation import hold

MAX_ATTEMPTS = 4


def check_outcome(played: Played) -> None:
    """Raises Violation for the first thing that is wrong."""
    check_rows(played)
    for name, job in zip(played.story.job_names(), played.story.jobs, strict=True):
        state = next(row.state for row in played.rows.jobs if row.job == name)
        if state == "succeeded":
            check_records(played, name, job)
        else:
            check_excuse(played, name)
        check_files(played, name, job, state)
    check_replicas(played)
    check_replay(played)


def check_rows(played: Played) -> None:
    """Each job has ended once, and each launch too."""
    wanted = sorted(played.story.job_names())
    found = sorted(row.job for row in played.rows.jobs if row.job != LAST_JOB)
    hold(found == wanted, "every job ends once", found)
    launched = [row for row in played.rows.decisions if row.answer in LAUNCHES]
    hold(len(launched) == len(played.rows.attempts), "every launch ends", len(launched))


def check_excuse(played: Played, job: str) -> None:
    """A job may fail only if one of its tasks has used up its attempts, and not by the scheduler's fault."""
    faults = {fault.kind for fault in played.story.faults}
    failures: dict[str, list[str]] = {}
    for row in played.rows.attempts:
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


def check_records(played: Played, name: str, job: StoryJob) -> None:
    """Each record of the input is in the output once: by the ranges of the maps that made it."""
    committed = {file: attempt for (owner, file), attempt in played.committed.items() if owner == name}
    if not job.reduces:
        _check_cover(played, name, job, list(committed.values()))
        return
    parts = [f"part-{index:05d}" for index in range(job.reduces)]
    hold(sorted(committed) == parts, "every part is there", f"{name}: {committed}")
    for attempt in committed.values():
        consumed = played.accidents.consumed.get(attempt, {})
        _check_cover(played, name, job, list(consumed.values()))


def _check_cover(played: Played, name: str, job: StoryJob, maps: list[str]) -> None:
    """The ranges of these maps are the whole input, and none twice; all of them have succeeded."""
    rows = {row.attempt: row for row in played.rows.attempts}
    for attempt in maps:
        row = rows.get(attempt)
        hold(row is not None and row.state == "succeeded", "only good outputs are used", attempt)
    plans = [played.accidents.plans[attempt] for attempt in maps]
    hold(all(plan.job == name and plan.kind is TaskKind.MAP for plan in plans), "own maps are read", maps)
    if not job.input_mib:
        indices = sorted(plan.index for plan in plans)
        hold(indices == list(range(job.maps)), "no record is lost or doubled", f"{name}: {indices}")
        return
    end = 0
    for row in sorted((rows[attempt] for attempt in maps), key=lambda row: row.offset):
        hold(row.offset == end, "no record is lost or doubled", f"{row.attempt} begins at {row.offset}")
        end += row.length
        read = sum(length for _, length in played.accidents.plans[row.attempt].blocks)
        hold(read == row.length, "a map reads what it owns", f"{row.attempt}: {read}")
    hold(end == job.maps * job.input_mib * 2**20, "no record is lost or doubled", f"{name} ends at {end}")


def check_files(played: Played, name: str, job: StoryJob, state: str) -> None:
    """The outputs that were put into place are files, and nothing else is left."""
    try:
        found = [child["name"] for child in played.sim.storage.names.list(f"/out/{name}")]
    except BlockStoreError:
        found = []
    wanted = sorted(file for owner, file in played.committed if owner == name and job.output_mib)
    if state == "succeeded":
        hold(found == wanted, "outputs are in place and nothing else", f"{name}: {found}")
    else:
        hold(set(found) <= set(wanted), "nothing is left of a failed job", f"{name}: {found}")


def check_replicas(played: Played) -> None:
    """Every block that has a replica left has as many as it should, or as there are nodes."""
    if not any(row.job == LAST_JOB for row in played.rows.jobs):
        return
    names = played.sim.storage.names
    nodes = len(names.nodes())
    for block in names.fsck()["under_replicated"]:
        good = len(names.holders(block))
        hold(good >= min(nodes, played.story.replication), "replicas are restored", f"{block} has {good}")
    if not any(fault.kind in ("kill", "corrupt_replica", "delete_replica") for fault in played.story.faults):
        missing = names.fsck()["missing"]
        hold(not missing, "replicas are found again", missing)


def check_replay(played: Played) -> None:
    """The same events in a fresh core give the same rows and the same state."""
    again = Rows()
    setup = played.sim.setup
    policy = setup.policy()
    core = Core(CoreConfig(heartbeat_s=setup.cluster.heartbeat_s), policy, again, seed=setup.seed)
    replay(played.postman.journal, core, policy)
    hold(again.history() == played.rows.history(), "a replay gives the same rows", "")
    hold(core.status() == played.sim.core.status(), "a replay gives the same state", "")
