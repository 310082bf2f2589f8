"""Choice of the nodes for the blocks of an input file, before the file is uploaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedbed.cluster.blocks.blockmanager import BlockManager
from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.namespace import File
from schedbed.cluster.blocks.placement import hot_nodes, place_even, place_file, place_hdfs, place_preferred
from schedbed.cluster.masters import Rows
from schedbed.tasks.specs import NodeId


def lay_out(
    file: File, manager: BlockManager, seed: int, preferred: Sequence[Sequence[NodeId]] | None
) -> Rows:
    """Choose nodes for all blocks of an input file, and record them as future holders of the replicas.

    The file's `placement` is the rule for the choice: hdfs, even or skewed. The placement skewed uses only a
    share `skew` of the nodes. Random choices depend on `seed`. `preferred` may contain a list of nodes for
    each block; live nodes in this list are chosen first. Return a row {"block", "offset", "length", "nodes"}
    for each block.
    """
    if file.placement == "hdfs" and file.skew is None and not preferred:
        return _lay_out_hdfs(file, manager, seed)
    plan: Rows = []
    offset = 0
    file_blocks: dict[NodeId, int] = {}
    for index, (block, length) in enumerate(file.blocks.items()):
        wished = preferred[index] if preferred else ()
        nodes = _place_input(file, block, manager, seed, file_blocks, wished)
        manager.map.add_block(block)
        for node in nodes:
            manager.map.expect(block, node, "input", length)
            file_blocks[node] = file_blocks.get(node, 0) + 1
        plan.append({"block": block, "offset": offset, "length": length, "nodes": nodes})
        offset += length
    return plan


def _lay_out_hdfs(file: File, manager: BlockManager, seed: int) -> Rows:
    plan: Rows = []
    offset = 0
    blocks, lengths = list(file.blocks), list(file.blocks.values())
    places = place_file(manager.map.field, file.replication, blocks, lengths, seed=seed)
    for block, length, nodes in zip(blocks, lengths, places, strict=True):
        manager.map.promise(block, nodes, "input", length)
        plan.append({"block": block, "offset": offset, "length": length, "nodes": nodes})
        offset += length
    return plan


def _place_input(
    file: File,
    block: str,
    manager: BlockManager,
    seed: int,
    file_blocks: Mapping[NodeId, int],
    preferred: Sequence[NodeId],
) -> list[NodeId]:
    field, count = manager.map.field, file.replication
    if preferred:
        return place_preferred(field, count, seed=seed, block=block, preferred=preferred)
    if file.skew is not None:
        hot = hot_nodes(manager.order, file.skew)
        hot = [each for each in field.candidates() if each.node in hot]
        field = NodeIndex(hot) if hot else field
    if file.placement == "hdfs":
        return place_hdfs(field, count, seed=seed, block=block)
    return place_even(field.candidates(), count, seed=seed, block=block, file_blocks=file_blocks)
