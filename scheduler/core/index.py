"""Indices that find an unstarted map by node or rack of its input, in constant time.

They are stacks, from which a lookup removes started tasks (lazy deletion).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from schedbed.scheduler.core.states import TaskState
from schedbed.tasks.specs import NodeId

UNSTARTED = TaskState.UNSTARTED


class Placed(Protocol):
    """The protocol of the tasks in a `TaskIndex`: the task's state and the location of its input."""

    state: TaskState

    @property
    def hosts(self) -> tuple[NodeId, ...]:
        """Return the nodes that have a replica of the task's input."""
        ...

    @property
    def racks(self) -> tuple[str, ...]:
        """Return the racks of the nodes in `hosts`."""
        ...


T = TypeVar("T", bound=Placed)


class TaskIndex(Generic[T]):
    """The unstarted tasks of a job, in a stack for each node and rack with their input.

    A lookup removes started tasks. The lowest index is on top at first, later a task that runs again. The
    racks' stacks are built at the first lookup, because many jobs never need them.
    """

    __slots__ = ("_anywhere", "_by_host", "_by_rack", "_every")

    def __init__(self, tasks: Iterable[T] = ()) -> None:
        self._by_host: defaultdict[NodeId, list[T]] = defaultdict(list)
        self._by_rack: defaultdict[str, list[T]] | None = None
        self._anywhere: list[T] = []
        self._every: list[T] = []
        for task in tasks:
            self.add(task)

    def fill(self, tasks: Sequence[T]) -> None:
        """Add all tasks of a new job. The task with the lowest index is then on top of each stack."""
        by_host = self._by_host
        self._every = list(reversed(tasks))
        for task in self._every:
            if not task.hosts:
                self._anywhere.append(task)
            for host in task.hosts:
                by_host[host].append(task)

    def add(self, task: T) -> None:
        """Add a task that must run again, or an unstarted task whose input is now on other nodes."""
        self._every.append(task)
        if not task.hosts:
            self._anywhere.append(task)
            return
        for host in task.hosts:
            self._by_host[host].append(task)
        if self._by_rack is not None:
            self.add_racks(task)

    def add_racks(self, task: T) -> None:
        """Add the task to the stacks of its racks, when the registration of a node makes its rack known."""
        by_rack = self._racks()
        for rack in task.racks:
            by_rack[rack].append(task)

    def _racks(self) -> defaultdict[str, list[T]]:
        """Return a dictionary from rack to its stack of tasks. The first call builds it from the unstarted tasks."""
        by_rack = self._by_rack
        if by_rack is None:
            by_rack = self._by_rack = defaultdict(list)
            for task in self._every:
                if task.state is UNSTARTED:
                    for rack in task.racks:
                        by_rack[rack].append(task)
        return by_rack

    def on_host(self, node: NodeId) -> T | None:
        """Return the next unstarted task with a replica of its input on that node, or None."""
        stack = self._by_host.get(node)
        while stack:
            task = stack[-1]
            if task.state is UNSTARTED and node in task.hosts:
                return task
            stack.pop()
        return None

    def on_rack(self, rack: str) -> T | None:
        """Return the next unstarted task with a replica of its input in that rack, or None."""
        by_rack = self._by_rack
        stack = (self._racks() if by_rack is None else by_rack).get(rack)
        while stack:
            task = stack[-1]
            if task.state is UNSTARTED and rack in task.racks:
                return task
            stack.pop()
        return None

    def anywhere(self) -> T | None:
        """Return the next unstarted task whose input has no location (no node stores it), or None."""
        stack = self._anywhere
        while stack:
            task = stack[-1]
            if task.state is UNSTARTED and not task.hosts:
                return task
            stack.pop()
        return None

    def first(self) -> T | None:
        """Return the next unstarted task, wherever its input is, or None if all tasks have started."""
        stack = self._every
        while stack:
            task = stack[-1]
            if task.state is UNSTARTED:
                return task
            stack.pop()
        return None

    def holds(self, task: T) -> bool:
        """Return whether the task is in every stack in which it should be. Consistency checks call this method."""
        stacks = [self._every]
        stacks += [self._by_host.get(host, []) for host in task.hosts] or [self._anywhere]
        if self._by_rack is not None:
            stacks += [self._by_rack.get(rack, []) for rack in task.racks]
        return all(task in stack for stack in stacks)


class WholeTask(Placed, Protocol):
    """The protocol of the tasks in a `WholeIndex`. `tries` is the number of attempts of the task so far."""

    tries: int

    @property
    def part(self) -> object | None:
        """Return the part of a divided map, or None."""
        ...


W = TypeVar("W", bound=WholeTask)


class WholeIndex(Generic[W]):
    """The maps that can be split, in a stack for each rack with their input: unstarted, never tried, no
    parts.

    The caller makes a new index after replicas have moved.
    """

    __slots__ = ("_by_rack", "_every")

    def __init__(self, tasks: Sequence[W]) -> None:
        self._every = [task for task in reversed(tasks) if _is_whole(task)]
        self._by_rack: defaultdict[str, list[W]] = defaultdict(list)
        for task in self._every:
            for rack in task.racks:
                self._by_rack[rack].append(task)

    def near(self, rack: str) -> W | None:
        """Return the next map with input in the rack, or else any, or None."""
        return _top(self._by_rack.get(rack)) or _top(self._every)


def _top(stack: list[W] | None) -> W | None:
    while stack:
        if _is_whole(stack[-1]):
            return stack[-1]
        stack.pop()
    return None


def _is_whole(task: WholeTask) -> bool:
    return task.state is UNSTARTED and not task.tries and task.part is None and bool(task.hosts)


def racks_of(hosts: Iterable[NodeId], rack_by_node: Mapping[NodeId, str]) -> tuple[str, ...]:
    """Return the racks of the nodes `hosts`, without duplicates, in order. Nodes not in `rack_by_node` are ignored."""
    return tuple(dict.fromkeys(filter(None, map(rack_by_node.get, hosts))))
