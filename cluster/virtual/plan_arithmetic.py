"""Functions on plans for all simulated nodes: sizes of outputs, replicas by distance, reasons of failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.virtual.node_model import AttemptPlan, Store
from schedbed.tasks.specs import NodeId


def equal_shares(total: int, parts: int) -> tuple[int, ...]:
    """Return `total` divided into `parts` whole numbers, in the same way as the synthetic application."""
    cuts = [total * part // parts for part in range(parts + 1)]
    return tuple(high - low for low, high in pairwise(cuts))


class PartitionSizes:
    """The partition sizes of map outputs: the bytes of each reduce's part. Equal plans share one tuple."""

    def __init__(self) -> None:
        self._equal: dict[tuple[int, int], tuple[int, ...]] = {}

    def of(self, plan: AttemptPlan) -> tuple[int, ...]:
        """Return the partition sizes of a map's output in bytes; empty if the output is a file."""
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
    """Return the holders by distance from the node `own`: the node itself, then its rack, then other racks.

    `turn` rotates holders of equal distance.
    """
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
    """Return the number of bytes that a map writes to local disk: its output, and spills before merging."""
    cost = plan.cost
    return max(cost.spill_bytes, cost.output_bytes) if plan.output is None and plan.reduces else 0


def block_lengths(total: int, block_bytes: int) -> list[int]:
    """Return the block sizes of a file of `total` bytes. The list is empty for an empty file.

    A `block_bytes` of 0 means one block for the whole file.
    """
    size = block_bytes or total
    return [min(size, total - at) for at in range(0, total, size)] if total else []


def write_file(store: Store, now_s: float, node: NodeId, plan: AttemptPlan) -> str:
    """Write the attempt's output file in one step. Return the reason of a failure; empty on success."""
    assert plan.output is not None
    lengths = block_lengths(plan.cost.output_bytes, plan.block_bytes)
    for length in lengths:
        if not store.allocate(now_s, node, plan.output, plan.replication, length):
            return no_room(plan.output)
    store.written(now_s, node, plan.output, lengths)
    return ""


def over_memory(limit_bytes: int) -> str:
    """Return the failure reason of an attempt over its memory limit, with the text of live attempts."""
    return f"over its memory limit of {limit_bytes / 2**20:.0f} MiB"


def no_replica(block: str) -> str:
    """Return the failure reason of a map whose input block cannot be read."""
    return f"OSError: no replica of {block} could be read (it has none)"


def no_room(path: str) -> str:
    """Return the failure reason of an attempt whose output block cannot be placed on any node."""
    return f"OSError: no node could take a block of {path}"


def not_stored(path: str) -> str:
    """Return the failure reason of an attempt whose output block was not stored by its first node."""
    return f"OSError: a block of {path} was not stored"


CRASHED = "killed by signal 9 (SIGKILL)"
"""The reason of an attempt that failed because its process died by accident."""


def gave_up(tries: int, map_attempt: str, node: NodeId) -> str:
    """Return the failure reason of a reduce that could not fetch a map's output."""
    return f"OSError: gave up after {tries} tries to fetch {map_attempt} from {node}"


def fails_at(plan: AttemptPlan) -> tuple[float, str] | None:
    """Return the share of its work after which the attempt fails, and the reason; None if it does not fail.

    Memory is assumed to grow with the work done, so an attempt fails when its memory reaches its limit.
    """
    share, reason = plan.fails_after, plan.failure
    peak_bytes = plan.cost.memory_peak_bytes
    if share is None and peak_bytes <= plan.memory_bytes:
        return None
    if 0 < plan.memory_bytes < peak_bytes:
        reached = plan.memory_bytes / peak_bytes
        if share is None or reached < share:
            share, reason = reached, over_memory(plan.memory_bytes)
    return None if share is None else (share, reason)
