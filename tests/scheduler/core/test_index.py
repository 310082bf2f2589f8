"""The index of unstarted maps compared with a linear search, and the tables of allowed state changes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.scheduler.core.index import TaskIndex, racks_of
from schedbed.scheduler.core.states import (
    ATTEMPTS,
    JOBS,
    TASKS,
    AttemptState,
    BadTransition,
    JobState,
    TaskState,
    step,
)

RACKS = {"n0": "r0", "n1": "r0", "n2": "r1"}


@dataclass(eq=False)
class Map:
    """A minimal task: the attributes that the index reads."""

    hosts: tuple[str, ...]
    racks: tuple[str, ...] = ()
    state: TaskState = TaskState.UNSTARTED

    def move(self, hosts: tuple[str, ...]) -> None:
        """Replace the hosts and racks of the task's replicas."""
        self.hosts, self.racks = hosts, racks_of(hosts, RACKS)


hosts = st.lists(st.sampled_from(["n0", "n1", "n2", "unknown"]), unique=True, max_size=3).map(tuple)
steps = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.just("start"), st.just("again"), hosts)), max_size=30
)


@given(st.lists(hosts, min_size=5, max_size=5), steps)
def test_a_look_finds_what_a_search_would(places: list[tuple[str, ...]], changes: list[tuple[int, object]]):
    """Tasks start, become unstarted again and change their replicas in any order.

    Each lookup in the index agrees with a search over all tasks and changes nothing.
    """
    tasks = [Map(()) for _ in places]
    for task, where in zip(tasks, places, strict=True):
        task.move(where)
    index: TaskIndex[Map] = TaskIndex(tasks)
    for place, change in changes:
        task = tasks[place]
        if change == "start":
            task.state = TaskState.RUNNING
        elif change == "again" and task.state is TaskState.RUNNING:
            task.state = TaskState.UNSTARTED
            index.add(task)
        elif isinstance(change, tuple):
            task.move(change)
            if task.state is TaskState.UNSTARTED:
                index.add(task)
        ready = [task for task in tasks if task.state is TaskState.UNSTARTED]
        for host, rack in RACKS.items():
            assert (index.on_host(host) is None) == (not any(host in task.hosts for task in ready))
            assert (index.on_rack(rack) is None) == (not any(rack in task.racks for task in ready))
            found, near = index.on_host(host), index.on_rack(rack)
            assert found is None or (found in ready and host in found.hosts)
            assert near is None or (near in ready and rack in near.racks)
        assert (index.first() is None) == (not ready)
        assert (index.anywhere() is None) == (all(task.hosts for task in ready))
        assert all(index.holds(task) for task in ready)


def test_the_lowest_index_comes_first_and_what_runs_again_before_it():
    """The index, filled from the last task to the first, returns the lowest task.

    A task that must run again is returned first.
    """
    tasks = [Map(("n0",), ("r0",)) for _ in range(3)]
    index: TaskIndex[Map] = TaskIndex(reversed(tasks))
    assert index.on_host("n0") is index.on_rack("r0") is index.first() is tasks[0]
    tasks[0].state = tasks[1].state = TaskState.RUNNING
    assert index.on_host("n0") is tasks[2]
    tasks[1].state = TaskState.UNSTARTED
    index.add(tasks[1])
    assert index.on_host("n0") is index.first() is tasks[1]


def test_a_step_that_the_tables_do_not_have_is_a_bug():
    """A state change that is not in the tables raises an error that names the attempt and both states."""
    assert step("t", TaskState.RUNNING, TaskState.DONE) is TaskState.DONE
    assert step("j", JobState.RUNNING, JobState.KILLED) is JobState.KILLED
    with pytest.raises(BadTransition, match="a1: lost -> running is not allowed"):
        step("a1", AttemptState.LOST, AttemptState.RUNNING)


@pytest.mark.parametrize(
    ("table", "states"), [(JOBS, list(JobState)), (TASKS, list(TaskState)), (ATTEMPTS, list(AttemptState))]
)
def test_every_state_can_be_reached_and_has_its_line(table: dict, states: list):
    """Every state can be reached from the first state of the table and is a key of the table."""
    reached, todo = set(), [next(iter(table))]
    while todo:
        state = todo.pop()
        if state not in reached:
            reached.add(state)
            todo += sorted(table[state])
    assert reached == set(table) == set(states)
