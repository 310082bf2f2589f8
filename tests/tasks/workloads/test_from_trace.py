"""Synthetic jobs made from traces: selection, assumptions, reduced sizes, and input files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.tasks.traces.topology import map_hosts, replica_nodes
from schedbed.tasks.traces.trace import Trace, TraceJob, TraceTask
from schedbed.tasks.workloads.from_trace import Assume, select, synthesize

MIB = 2**20
NODES = {"n1": "r1", "n2": "r2", "n3": "r1", "n4": "r2"}


def swim(**fields) -> TraceJob:
    """Return a job of a trace that contains only totals; `fields` replace defaults."""
    return TraceJob(**{"name": "j", "submit_s": 0.0, **fields})


def made(job: TraceJob, **assume):
    """Return the synthetic job made from a trace that contains only `job`, with the given assumptions."""
    jobs, _ = synthesize(Trace(format="swim", jobs=(job,)), [job], Assume(**assume))
    return jobs[0]


def test_a_map_a_block_and_a_reduce_a_gigabyte_of_shuffle():
    job = made(swim(input_bytes=640 * MIB, shuffle_bytes=3 * 1024 * MIB, output_bytes=30 * MIB))
    assert (len(job.maps), len(job.reduces)) == (10, 3)
    assert job.maps[0].read_bytes == 64 * MIB
    assert sum(cost.write_bytes for cost in job.maps) == pytest.approx(3 * 1024 * MIB, rel=1e-6)
    assert job.reduces[0].write_bytes == 10 * MIB


def test_reduces_that_write_more_than_they_fetch_are_as_many_as_their_output_asks_for():
    job = made(swim(input_bytes=MIB, shuffle_bytes=5, output_bytes=20 * 1024 * MIB))
    assert (len(job.maps), len(job.reduces)) == (1, 20)
    assert job.reduces[0].write_bytes == 1024 * MIB


def test_a_64_mib_map_takes_eleven_seconds_of_an_emulated_core():
    assert made(swim(input_bytes=64 * MIB, shuffle_bytes=1)).maps[0].cpu_s == pytest.approx(11.0)


def test_a_job_without_shuffle_is_map_only_and_its_maps_write():
    job = made(swim(input_bytes=100, output_bytes=640 * MIB))
    assert (len(job.maps), job.reduces) == (10, ())
    assert job.maps[0].write_bytes == 64 * MIB
    assert len(made(swim()).maps) == 1


def test_a_share_of_the_tasks_is_kept_with_their_bytes():
    job = swim(input_bytes=6400 * MIB, shuffle_bytes=10 * 1024 * MIB, output_bytes=1000)
    tenth = made(job, share=0.1)
    assert (len(tenth.maps), len(tenth.reduces)) == (10, 1)
    assert tenth.maps[0] == made(job).maps[0]
    assert len(made(swim(input_bytes=10, shuffle_bytes=5), share=0.001).maps) == 1


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(10**6, 10**9),
    st.floats(0.001, 2),
)
def test_no_job_moves_more_than_the_limit(read, shuffled, written, limit, share):
    job = made(
        swim(input_bytes=read, shuffle_bytes=shuffled, output_bytes=written),
        limit_bytes=limit,
        block_bytes=10**9,
        share=share,
    )
    slack = len(job.maps) + len(job.reduces)
    assert sum(cost.read_bytes for cost in job.maps) <= limit + slack
    assert sum(cost.write_bytes for cost in job.maps) <= limit + slack
    assert sum(cost.write_bytes for cost in job.reduces) <= limit + slack


def test_what_was_cut_and_assumed_is_said():
    job = swim(input_bytes=10**9)
    _, notes = synthesize(Trace(format="swim", jobs=(job,)), [job], Assume(limit_bytes=1000, share=0.5))
    assert any(note.startswith("cut: 1 jobs to at most 1000 B") for note in notes)
    assert any(note.startswith("cut: 0.5 of each job's tasks kept") for note in notes)
    assert any("dealt at random to 5 users" in note for note in notes)


def test_recorded_tasks_keep_their_costs_and_unknown_ones_get_the_mean():
    known = TraceTask(input_bytes=100, output_bytes=10, duration_s=8.0, work_s=8.0, cpu_s=2.0)
    timed = TraceTask(input_bytes=100_000_000, output_bytes=0, duration_s=8.0, work_s=8.0)
    job = made(swim(maps=(known, timed, TraceTask()), user="ana"))
    assert [cost.cpu_s for cost in job.maps] == [2.0, 6.0, 4.0]  # 8 s less 2 s for 100 MB at 50 MB/s
    assert job.maps[2].read_bytes == 50_000_050
    assert job.user == "ana"


def test_users_are_dealt_by_the_seed():
    jobs = [swim(name=f"j{n}") for n in range(50)]
    trace = Trace(format="swim", jobs=tuple(jobs))
    users = [job.user for job in synthesize(trace, jobs, Assume(users=3, seed=1))[0]]
    assert set(users) == {"u1", "u2", "u3"}
    assert users == [job.user for job in synthesize(trace, jobs, Assume(users=3, seed=1))[0]]
    assert users != [job.user for job in synthesize(trace, jobs, Assume(users=3, seed=2))[0]]


def test_selection_is_by_trace_time_and_starts_at_zero():
    jobs = [swim(name=f"j{n}", submit_s=100.0 * n + 50) for n in range(6)]
    assert [(job.name, job.submit_s) for job in select(jobs, 2, 0.0, None)] == [("j0", 0.0), ("j1", 100.0)]
    assert [(job.name, job.submit_s) for job in select(jobs, None, 200.0, 400.0)] == [
        ("j2", 50.0),
        ("j3", 150.0),
    ]
    clock = [swim(name="a", submit_s=1.3e9), swim(name="b", submit_s=1.3e9 + 60)]
    assert [job.name for job in select(clock, None, 30.0, None)] == ["b"]
    assert select(jobs, None, 9999.0, None) == []


def test_traced_racks_stay_together_and_one_rack_is_spread():
    two = [("ra", "h1"), ("ra", "h2"), ("rb", "h3"), ("rb", "h4")]
    assert map_hosts(two, NODES) == {two[0]: "n1", two[1]: "n3", two[2]: "n2", two[3]: "n4"}
    one = [("r", f"h{n}") for n in range(6)]
    assert list(map_hosts(one, NODES).values()) == ["n1", "n2", "n3", "n4", "n1", "n2"]


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("uvwxyz")), max_size=20), st.integers(1, 4)
)
def test_replicas_are_on_different_nodes_and_the_traces_come_first(hosts, count):
    mapped = map_hosts(hosts, NODES)
    nodes = replica_nodes(hosts, mapped, list(NODES), count)
    assert mapped == map_hosts(list(reversed(hosts)), NODES)
    if hosts:
        assert len(nodes) == len(set(nodes)) == count and nodes[0] == mapped[hosts[0]]
    else:
        assert nodes == (), "a place that no trace says"
