"""Blocks that maps have fetched stay on the reading node, in virtual time: with the policy DTSS and, for any
policy, with the replication scheme DARE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedbed.cluster.spec import ClusterSpec, DynamicReplicas
from schedbed.tasks.workloads.planned import InputFile
from tests.harness.simulation import MIB, Tape, cluster, job, setup, simulate

FILE = InputFile(path="/in/a", source="filler", blocks=(64 * MIB,) * 8)


def skewed(**blocks: Any) -> ClusterSpec:
    """Return a cluster of five nodes, one of which stores all input.

    The network is slow: reading a block from another node takes 32 s.
    """
    plain = cluster(5, network_bps=2.0 * MIB, map_slots=1)
    return replace(plain, blocks=replace(plain.blocks, replication=1, placement="skewed", skew=0.2, **blocks))


def two_jobs(policy: str, **blocks: Any) -> Tape:
    """Simulate two jobs with the same input, one after the other, and return the rows."""
    jobs = [
        job("job_0001", [4.0] * 8, reduces=[1.0], input="/in/a", read_bytes=64 * MIB),
        job("job_0002", [4.0] * 8, reduces=[1.0], input="/in/a", read_bytes=64 * MIB, submit_s=300.0),
    ]
    return simulate(setup(jobs, cluster=skewed(**blocks), files=[FILE], policy=policy))


def rows(tape: Tape, table: str) -> list[Any]:
    return list(tape.rows[table])


def remote_bytes(tape: Tape, name: str) -> int:
    return sum(row.read_remote_bytes for row in rows(tape, "attempt") if row.job == name)


def finish_s(tape: Tape, name: str) -> float:
    return next(row.finish for row in rows(tape, "job") if row.job == name)


def copies(tape: Tape) -> int:
    return sum(row[-1] == "dare" for row in tape.rows["block"])


@pytest.mark.parametrize(
    "policy",
    [
        "dtss:p=0.25,keep_copy=true,copy_budget=1",
        "order=fair,locality=split:p=0.25+keep_copy=true+copy_budget=1",
    ],
)
def test_the_next_job_finds_what_the_first_one_fetched(policy: str) -> None:
    without, kept = two_jobs("dtss:p=0.25"), two_jobs(policy)
    assert copies(without) == 0 and copies(kept) >= 4
    assert remote_bytes(kept, "job_0001") == remote_bytes(without, "job_0001")
    assert remote_bytes(kept, "job_0002") < remote_bytes(without, "job_0002") / 2
    assert finish_s(kept, "job_0002") < finish_s(without, "job_0002")
    assert any("copied here" in row.reason for row in rows(kept, "decision") if row.answer == "split")


def test_the_budget_holds_at_any_time() -> None:
    """A budget of a quarter of eight blocks allows two copies at any time."""
    tape = two_jobs("dtss:p=0.25,keep_copy=true,copy_budget=0.25")
    lives = [(row[4], row[5]) for row in tape.rows["block"] if row[-1] == "dare"]
    lasting = [(added, 1e9 if removed is None else removed) for added, removed in lives]
    settled_s = 2.5  # from an eviction until the node asks what it is to delete
    for begin, _ in lasting:
        at_s = begin + settled_s
        assert sum(added <= at_s < removed - settled_s for added, removed in lasting) <= 2
    assert lives


def test_dare_keeps_copies_under_any_policy_with_its_probability() -> None:
    assert copies(two_jobs("fifo")) == 0
    all_, some = (two_jobs("fifo", keep_share=share, keep_budget=1.0) for share in (1.0, 0.3))
    assert copies(all_) > copies(some) > 0
    assert remote_bytes(all_, "job_0002") < remote_bytes(two_jobs("fifo"), "job_0002")


def test_the_same_seed_gives_the_same_copies() -> None:
    policy = "dtss:p=auto,keep_copy=true"
    assert two_jobs(policy).text() == two_jobs(policy).text()


@pytest.mark.parametrize("scheme", ["scarlett", "cdrm"])
def test_replication_by_epochs_helps_the_next_job_under_any_policy(scheme: str) -> None:
    """One of five nodes stores all input.

    The scheme adds replicas from the end of the first epoch on, so the second job reads less from other
    nodes.
    """
    replicas = DynamicReplicas(scheme=scheme, epoch_s=20.0, budget=4.0, availability=0.9)
    without, more = two_jobs("fifo"), two_jobs("fifo", replicas=replicas)
    assert sum(row[-1] == scheme for row in more.rows["block"]) >= 8
    assert remote_bytes(more, "job_0002") < remote_bytes(without, "job_0002")
    again = two_jobs("fifo", replicas=replicas)
    assert [rows(again, table) for table in ("attempt", "job")] == [
        rows(more, table) for table in ("attempt", "job")
    ]
