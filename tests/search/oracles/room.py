"""Reference for the room on a node for one more task, computed from the node's attempts."""

from __future__ import annotations

from typing import Any

from schedbed.tasks.specs import TaskKind


def slot_room(node: Any, kind: TaskKind) -> bool:
    """Return whether a slot of that kind is free."""
    slots = node.spec.map_slots if kind is TaskKind.MAP else node.spec.reduce_slots
    return sum(attempt.task.kind is kind for attempt in node.attempts.values()) < slots


def container_room(reserved_cores: int, node: Any, job: Any, kind: TaskKind) -> bool:
    """Return whether a container for the job's task fits on the node.

    Reduces wait while their job has unstarted maps and none of its maps runs.
    """
    demand, held = job.stage(kind).demand, [each.task.stage.demand for each in node.attempts.values()]
    cores = node.spec.cores - sum(each.vcores for each in held)
    memory = node.spec.memory_bytes - sum(each.memory_bytes for each in held)
    spare = cores - reserved_cores
    if demand.memory_bytes > memory or (demand.vcores > spare and (held or demand.vcores > cores)):
        return False
    waits = kind is TaskKind.REDUCE and job.maps.unstarted and not job.maps.running
    return not waits
