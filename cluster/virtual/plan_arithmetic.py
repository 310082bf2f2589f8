"""Functions on attempt plans for all kinds of simulation: output sizes, nearest replicas, failure reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.node_model import AttemptPlan, Store
from schedbed.tasks.specs import NodeId


def equal_shares(total: int, parts: int) -> tuple[int, ...]:
    """Divide `total` into `parts` that differ by at most one, as the synthetic application does."""
    cuts = [total * part // parts for part in range(parts + 1)]
    return tuple(high - low for low, high in pairwise(cuts))


class PartitionSizes:
    """A cache of map outputs' partition sizes, so that equal plans share one tuple."""

    def __init__(self) -> None:
        self._equal: dict[tuple[int, int], tuple[int, ...]] = {}

    def of(self, plan: AttemptPlan) -> tuple[int, ...]:
        """Return the bytes of a map's output for each reduce. The tuple is empty if the output is a file."""
        if plan.output is not None or not plan.reduces:
            return ()
        if plan.cost.partitions is not None:
            return plan.cost.partitions
        key = plan.cost.output_bytes, plan.reduces
        shares = self._equal.get(key)
        if shares is None:
            shares = self._equal[key] = equal_shares(*key)
        return shares


def nearest_first(
    holders: Sequence[NodeId], own: NodeSpec, racks: Mapping[NodeId, str], turn: int
) -> list[NodeId]:
    """Return holders by distance: same node, same rack, others; equal ones rotate by `turn`."""
    here = [node for node in holders if node == own.node]
    beside = [node for node in holders if node != own.node and racks.get(node) == own.rack]
    far = [node for node in holders if node != own.node and racks.get(node) != own.rack]
    return here + _turned(beside, turn) + _turned(far, turn)


def _turned(nodes: list[NodeId], turn: int) -> list[NodeId]:
    if len(nodes) < 2:
        return nodes
    first = turn % len(nodes)
    return nodes[first:] + nodes[:first]


def spilled_bytes(plan: AttemptPlan) -> int:
    """Return a map's bytes to the local disk with spills, 0 if the output is a file."""
    cost = plan.cost
    return max(cost.spill_bytes, cost.output_bytes) if plan.output is None and plan.reduces else 0


def block_lengths(total: int, block_bytes: int) -> list[int]:
    """Return a file's block sizes, none for an empty file. `block_bytes` 0 means one block."""
    size = block_bytes or total
    return [min(size, total - at) for at in range(0, total, size)] if total else []


def write_file(store: Store, now_s: float, node: NodeId, plan: AttemptPlan) -> str:
    """Write an attempt's whole output file. Return the reason of a failure, or ""."""
    assert plan.output is not None
    lengths = block_lengths(plan.cost.output_bytes, plan.block_bytes)
    for length in lengths:
        if not store.allocate(now_s, node, plan.output, plan.replication, length):
            return no_room(plan.output)
    store.written(now_s, node, plan.output, lengths)
    return ""


def over_memory(limit_bytes: int) -> str:
    """Return the reason of the failure, as in live runs."""
    return f"over its memory limit of {limit_bytes / 2**20:.0f} MiB"


def no_replica(block: str) -> str:
    return f"OSError: no replica of {block} could be read (it has none)"


def no_room(path: str) -> str:
    return f"OSError: no node could take a block of {path}"


def not_stored(path: str) -> str:
    return f"OSError: a block of {path} was not stored"


CRASHED = "killed by signal 9 (SIGKILL)"
"""The reason of an attempt that failed because its process died by accident."""


def gave_up(tries: int, map_attempt: str, node: NodeId) -> str:
    return f"OSError: gave up after {tries} tries to fetch {map_attempt} from {node}"


def fails_at(plan: AttemptPlan) -> tuple[float, str] | None:
    """Return when (share of work done) and why an attempt will fail, or None. Memory grows with the work."""
    share, reason = plan.fails_after, plan.failure
    peak_bytes = plan.cost.memory_peak_bytes
    if share is None and peak_bytes <= plan.memory_bytes:
        return None
    if 0 < plan.memory_bytes < peak_bytes:
        reached = plan.memory_bytes / peak_bytes
        if share is None or reached < share:
            share, reason = reached, over_memory(plan.memory_bytes)
    return None if share is None else (share, reason)
