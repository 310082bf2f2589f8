"""Costs that a MapReduce framework adds to tasks: each number of `Framework` changes the simulated times as
described.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedbed.deploy.scenario.resolve import resolve
from schedbed.scheduler.framework import HADOOP1, NONE, PROFILES, YARN_BARE, Framework
from schedbed.scheduler.simulate.compiled import covers
from schedbed.scheduler.simulate.simulation import Simulation
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost
from tests.harness.simulation import Tape, cluster, job, random_faults, random_jobs, setup, simulate


def rows(tape: Tape, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries from column to value."""
    named: list[Any] = list(tape.rows[table])
    return [row._asdict() for row in named]


def simulated(
    *jobs: Any, count: int = 1, cluster: Any = None, **numbers: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Simulate the jobs on `count` nodes, or on `cluster`, with the framework costs `numbers`.

    Return the rows of jobs and of attempts.
    """
    given = {} if cluster is None else {"cluster": cluster}
    tape = simulate(setup(list(jobs), count, framework=replace(NONE, name="mine", **numbers), **given))
    return rows(tape, "job"), sorted(rows(tape, "attempt"), key=lambda row: row["assigned"])


def test_none_changes_nothing() -> None:
    jobs = [job("job_0001", [1.0, 2.0], reduces=[1.0]), job("job_0002", [1.0], submit_s=0.7)]
    assert simulate(setup(jobs, 2)).text() == simulate(setup(jobs, 2, framework=NONE)).text()
    assert NONE.is_none and not HADOOP1.is_none
    assert {name: each.name for name, each in PROFILES.items()} == {name: name for name in PROFILES}


def test_no_number_at_all_but_a_name_gives_the_same_attempts() -> None:
    """A framework with a name but no costs disables the skipping of heartbeats, which must not change any
    attempt.
    """
    jobs = [job("job_0001", [1.0, 2.0], reduces=[1.0]), job("job_0002", [1.0], submit_s=0.7)]
    plain = simulate(setup(jobs, 2))
    framed = simulate(setup(jobs, 2, framework=replace(NONE, name="mine")))
    assert framed.text("attempt") == plain.text("attempt")


def test_a_heartbeat_starts_so_many_maps() -> None:
    works = job("job_0001", [9.0, 9.0], submit_s=1.0)
    _, attempts = simulated(works, maps_per_heartbeat=1)
    assert attempts[1]["assigned"] - attempts[0]["assigned"] == pytest.approx(0.5)  # the next heartbeat
    _, attempts = simulated(works, maps_per_heartbeat=2)
    assert attempts[1]["assigned"] == attempts[0]["assigned"]


def test_a_heartbeat_starts_so_many_reduces() -> None:
    works = job("job_0001", [1.0, 1.0, 5.0], reduces=[9.0, 9.0])
    frame = replace(NONE, name="mine", reduces_per_heartbeat=1)
    tape = simulate(setup([works], 1, framework=frame, cluster=cluster(1, reduce_slots=2)))
    reduces = [row for row in rows(tape, "attempt") if row["kind"] == "reduce"]
    assert reduces[0]["assigned"] != reduces[1]["assigned"]


def test_set_up_comes_before_and_clean_up_after() -> None:
    (plain,), before = simulated(job("job_0001", [3.0]))
    (row,), attempts = simulated(job("job_0001", [3.0]), init_s=1.0, setup_s=4.0, cleanup_s=2.0)
    assert attempts[0]["assigned"] >= before[0]["assigned"] + 4.0
    assert attempts[0]["assigned"] <= 0.5 + 1.0 + 0.5 + 4.0 + 0.1  # two heartbeats at most to be waited for
    assert row["finish"] == pytest.approx(attempts[0]["end"] + 2.0)
    assert plain["finish"] == pytest.approx(before[0]["end"])


def test_a_node_fetches_the_files_of_a_job_once() -> None:
    _, attempts = simulated(job("job_0001", [1.0, 1.0, 1.0]), localize_s=5.0)
    waits = [row["start"] - row["assigned"] for row in attempts]
    assert waits == pytest.approx([5.0, 5.0, 0.0])  # the second came while the files were being fetched


def test_the_set_up_task_has_fetched_the_files() -> None:
    _, attempts = simulated(job("job_0001", [1.0]), localize_s=5.0, setup_s=1.0)
    assert attempts[0]["start"] == attempts[0]["assigned"]
    assert attempts[0]["assigned"] >= 6.0


def test_a_reduce_starts_its_jvm_and_polls() -> None:
    """A reduce starts after `jvm_s` and `fetch_poll_s`.

    A map starts at once, because its recorded duration includes the start of the JVM.
    """
    works = job("job_0001", [1.0], reduces=[2.0])
    _, attempts = simulated(works, jvm_s=3.0, fetch_poll_s=4.0)
    starts = {row["kind"]: row["start"] - row["assigned"] for row in attempts}
    assert starts == {"map": pytest.approx(0.0), "reduce": pytest.approx(7.0)}


def test_reduces_that_wait_hear_of_the_last_map_after_a_poll() -> None:
    works = job("job_0001", [1.0, 1.0, 30.0], reduces=[2.0])
    (plain,), _ = simulated(works)
    (polled,), attempts = simulated(works, fetch_poll_s=4.0)
    assert polled["finish"] - plain["finish"] == pytest.approx(4.0)
    (reduce,) = [row for row in attempts if row["kind"] == "reduce"]
    assert reduce["start"] < 10.0  # long before the last map ended


def test_without_out_of_band_heartbeats_the_timer_reports_ends() -> None:
    works = job("job_0001", [0.7] * 6, submit_s=1.0)
    _, attempts = simulated(works, out_of_band=False)
    times = sorted({round(row["assigned"] % 0.5, 6) for row in attempts})
    assert len(times) == 1, times
    _, attempts = simulated(works)
    assert len({round(row["assigned"] % 0.5, 6) for row in attempts}) > 1


def test_a_poll_initializes_no_more_jobs_of_a_user_than_may_wait() -> None:
    jobs = [
        job(f"job_000{n}", [1.0], user=user) for n, user in ((1, "ana"), (2, "ana"), (3, "ana"), (4, "bo"))
    ]
    _, attempts = simulated(*jobs, count=4, init_poll_s=10.0, init_jobs=2)
    first = {row["job"]: row["assigned"] for row in attempts}
    assert all(10.0 <= first[name] < 11.0 for name in ("job_0001", "job_0002", "job_0004"))
    assert 20.0 <= first["job_0003"] < 21.0


def test_a_clean_up_without_out_of_band_heartbeats_takes_whole_heartbeats() -> None:
    frame = Framework(name="mine", cleanup_s=1.6, out_of_band=False)
    assert frame.cleanup_takes_s(3.0) == 3.0
    assert replace(frame, out_of_band=True).cleanup_takes_s(3.0) == 1.6


def test_a_reduce_fetches_at_the_frameworks_rate() -> None:
    """With a fetch rate of 1 MB/s a reduce that fetches 8 MB takes 7 to 8 s longer than at the rate of the
    network.
    """
    works = job("job_0001", [1.0], reduces=[0.1])
    works = replace(works, map_costs=(Cost(write_bytes=8_000_000),), reduce_costs=(Cost(cpu_s=0.1),))
    took_s = []
    for rate in (0.0, 1e6):
        frame = replace(NONE, name="mine", fetch_rate=rate)
        (row,) = rows(simulate(setup([works], framework=frame, contention=True)), "job")
        took_s.append(row["finish"] - row["submit"])
    assert 7.0 < took_s[1] - took_s[0] < 8.1


def test_a_fetch_rate_needs_contention() -> None:
    said: dict[str, Any] = {
        "framework": {"hadoop1": {"fetch_rate": "11MB/s"}},
        "workload": {"jobs": [{"app": "synthetic", "reduces": 1}]},
        "policies": ["fifo"],
    }
    assert resolve(said).framework.fetch_rate == 11e6
    with pytest.raises(BadInput, match="framework: fetch_rate needs attempts that contend"):
        resolve(said | {"simulate": {"contention": False}})


def test_the_profile_of_slurm_can_be_changed() -> None:
    said: dict[str, Any] = {
        "framework": "slurm",
        "workload": {"jobs": [{"app": "synthetic", "maps": 4}]},
        "policies": ["slurm-backfill"],
    }
    assert resolve(said).framework == PROFILES["slurm"]
    changed = resolve(said | {"framework": {"slurm": {"localize": "1s"}}}).framework
    assert changed == replace(PROFILES["slurm"], localize_s=1.0)


def test_the_compiled_loop_says_why_it_does_not_run() -> None:
    made = setup([job("job_0001", [1.0])], framework=HADOOP1)
    assert covers.why_not(Simulation(made, Tape())) == "framework is set"
    assert covers.why_not(Simulation(replace(made, framework=NONE), Tape())) != "framework is set"


def test_an_am_starts_what_was_granted_at_its_next_heartbeat() -> None:
    """The AM registers at 1.1 s, so it calls at 1.1, 2.1, 3.1 s. The third map is granted when the first ends."""
    works = job("job_0001", [0.7, 0.8, 0.7], submit_s=1.0)
    (row,), attempts = simulated(works, init_s=0.1, am_heartbeat_s=1.0)
    assert [each["start"] for each in attempts] == pytest.approx([2.1, 2.1, 3.1])
    assert 1.1 <= attempts[0]["assigned"] == attempts[1]["assigned"] <= 1.6  # the node's heartbeat
    assert attempts[2]["assigned"] == attempts[0]["end"] == pytest.approx(2.8)
    assert row["finish"] == pytest.approx(3.8)


def test_the_slots_of_granted_attempts_are_taken_until_their_am_starts_them() -> None:
    """The second job's AM calls at 1.5 s and each second later: at 7.5 s it starts what is granted at 7.0 s."""
    first, second = job("job_0001", [5.0], submit_s=1.0), job("job_0002", [5.0], submit_s=1.5)
    _, attempts = simulated(first, second, am_heartbeat_s=1.0, cluster=cluster(1, map_slots=1))
    assert [each["start"] for each in attempts] == pytest.approx([2.0, 7.5])
    assert attempts[1]["assigned"] == attempts[0]["end"] == pytest.approx(7.0)


def test_an_am_knows_the_end_of_its_last_task_before_the_node_reports_it() -> None:
    works = job("job_0001", [0.7], submit_s=1.0)
    (row,), attempts = simulated(works, am_heartbeat_s=1.0, out_of_band=False)
    assert row["finish"] == attempts[0]["end"] == pytest.approx(2.7)


def test_an_am_starts_reduces_and_files_are_fetched_from_then_on() -> None:
    works = job("job_0001", [0.7], reduces=[1.0])
    _, attempts = simulated(works, am_heartbeat_s=1.0, localize_s=0.5)
    starts = {row["kind"]: row["start"] for row in attempts}
    assert starts == {"map": pytest.approx(1.5), "reduce": pytest.approx(3.0)}


def test_the_profile_yarn_bare_can_be_changed() -> None:
    said: dict[str, Any] = {"workload": {"jobs": [{"app": "synthetic", "maps": 4}]}, "policies": ["fifo"]}
    assert resolve(said | {"framework": "yarn-bare"}).framework == YARN_BARE
    changes = {"out_of_band": False, "am_heartbeat": "200ms", "late_asks": False}
    changed = resolve(said | {"framework": {"yarn-bare": changes}}).framework
    assert changed == replace(YARN_BARE, out_of_band=False, am_heartbeat_s=0.2, late_asks=False)
    with pytest.raises(BadInput, match="framework: late_asks needs ApplicationMasters"):
        resolve(said | {"framework": {"hadoop1": {"late_asks": True}}})
    with pytest.raises(BadInput, match=r"expected one of hadoop1: .*, yarn-bare: .* and spark"):
        resolve(said | {"framework": {"yarn-bare": {}, "yarn": {}}})


LATE = {"am_heartbeat_s": 1.0, "late_asks": True}


def excess(attempts: list[dict[str, Any]]) -> list[tuple[float, float | None, float, str]]:
    """Return grant, start, end and state of the attempts for which no task was left."""
    return [
        (row["assigned"], row["start"], row["end"], row["state"])
        for row in attempts
        if row["reason"] == "no task was left for it"
    ]


def test_late_asks_bring_a_container_too_many_that_holds_its_slot() -> None:
    """The AM calls at 2.0 s (two granted, one left), 3.0 s (asks for the one, granted at 2.7 s) and 4.0 s.

    The node's heartbeats are at the ends, 2.7 and 2.8 s, and 0.5 s after the last one. The container that is
    granted at 3.3 s is seen at 4.0 s and released at 5.0 s. So the other job gets its slot at 5.3 s, not 3.8 s.
    """
    first = job("job_0001", [0.7, 0.8, 5.0], submit_s=1.0)
    second = job("job_0002", [1.0], submit_s=3.6)
    _, attempts = simulated(first, second, **LATE)
    assert excess(attempts) == [(pytest.approx(3.3), None, pytest.approx(5.0), "lost")]
    [other] = [row for row in attempts if row["job"] == "job_0002"]
    assert (other["assigned"], other["start"]) == (pytest.approx(5.3), pytest.approx(5.6))
    _, attempts = simulated(first, second, am_heartbeat_s=1.0)
    assert not excess(attempts)
    [other] = [row for row in attempts if row["job"] == "job_0002"]
    assert (other["assigned"], other["start"]) == (pytest.approx(3.8), pytest.approx(4.6))


def test_the_end_of_a_job_releases_its_containers() -> None:
    (row,), attempts = simulated(job("job_0001", [0.7, 0.8, 1.5], submit_s=1.0), **LATE)
    assert row["finish"] == pytest.approx(4.5)
    assert row["maps"] == 3
    assert excess(attempts) == [(pytest.approx(3.3), None, pytest.approx(4.5), "lost")]


def test_a_container_too_many_counts_for_the_limit_of_a_heartbeat() -> None:
    """With one container a heartbeat, those of 3.2 s and later are excess: one a heartbeat until the AM's next."""
    works = job("job_0001", [0.7, 0.7, 5.0], submit_s=1.0)
    _, attempts = simulated(works, cluster=cluster(1, map_slots=4), maps_per_heartbeat=1, **LATE)
    assert len({row["assigned"] for row in attempts}) == len(attempts)


@pytest.mark.parametrize("policy", ["fifo", "fair", "delay", "capacity"])
def test_empty_attempts_leave_the_core_consistent(policy: str) -> None:
    jobs, files = random_jobs(7)
    faults = random_faults(7, 3, ("kill", "slow", "freeze"))
    made = setup(jobs, 3, policy=policy, files=files, framework=YARN_BARE, faults=faults)
    tape = simulate(made, check=lambda simulation: simulation.core.check_tables())
    attempts = rows(tape, "attempt")
    assert excess(attempts) or policy == "fair"
    tasks = {row["task"] for row in attempts if row["state"] == "succeeded"}
    assert len(tasks) == sum(job.maps + job.reduces for job in jobs)
    assert simulate(made).text() == tape.text()
