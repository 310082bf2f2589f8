"""Reports on the block store as JSON values: file status, directory totals, and the health of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from schedbed.cluster.blocks.blockmap import BlockMap
from schedbed.cluster.blocks.namespace import Directory, Entry, File, Namespace
from schedbed.tasks.specs import NodeId


def status(entry: Entry) -> dict[str, Any]:
    """Return the status of a file or directory as a JSON value.

    The keys are `path`, `name` (last part of the path), `type` (file or directory), `length` (bytes),
    `replication`, `block_bytes`, `modified_s`, `complete`, `children` (their number), and the fields of
    `Attributes`.
    """
    common = {"path": entry.path, "name": entry.name, "modified_s": entry.modified_s}
    common |= {**asdict(entry.attributes), "acl": list(entry.attributes.acl)}
    if isinstance(entry, File):
        sizes = {"length": entry.length, "replication": entry.replication, "block_bytes": entry.block_bytes}
        return {**common, "type": "file", **sizes, "complete": entry.complete, "children": 0}
    children = len(entry.children) if isinstance(entry, Directory) else 0
    sizes = {"length": 0, "replication": 0, "block_bytes": 0}
    return {**common, "type": "directory", **sizes, "complete": True, "children": children}


def summary(names: Namespace, top: Entry) -> dict[str, int]:
    """Return the total size and the numbers of files and directories in the subtree below `top`.

    The dictionary contains `length` (the bytes of all files), `files`, `directories`, and `space` (the bytes
    of all wanted replicas). The numbers include `top` itself. `names` is the tree that contains `top`.
    """
    files = list(names.files(top))
    return {
        "length": sum(file.length for file in files),
        "files": len(files),
        "directories": sum(isinstance(entry, Directory) for entry in names.entries(top)),
        "space": sum(file.length * file.replication for file in files),
    }


def check_blocks(blocks: BlockMap) -> dict[str, Any]:
    """Return a report on the replicas of the blocks that belong to complete files.

    `blocks` is the number of these blocks. The other keys are lists of block ids: `under_replicated` (fewer
    good replicas than wanted), `missing` (no good replica), `corrupt` (a replica is marked as corrupt) and
    `over_replicated` (more good replicas than wanted).
    """
    wanted = {block: state for block, state in blocks.blocks.items() if state.target > 0}
    good = {block: len(state.good()) for block, state in wanted.items()}
    return {
        "blocks": len(wanted),
        "under_replicated": [b for b, state in wanted.items() if 0 < good[b] < state.target],
        "missing": [b for b in wanted if good[b] == 0],
        "corrupt": [b for b, s in wanted.items() if any(node in s.corrupt for node in s.replicas)],
        "over_replicated": [b for b, state in wanted.items() if good[b] > state.target],
    }


def pick_replica(
    names: Namespace,
    blocks: BlockMap,
    up: Sequence[NodeId],
    target: str,
    nodes: Sequence[NodeId],
    luck: float,
) -> tuple[str, NodeId] | None:
    """Choose a replica into which a fault can be injected. Return the block and the node of the replica.

    `target` is a block id or a file path. If `target` is empty, every block of a complete file qualifies that
    has good replicas on at least two nodes in `up`. The replica's node must be in `up`. If `nodes` is not
    empty, it must also be in `nodes`. `luck`, a number from 0 to 1, selects one of the replicas that qualify.
    Return None if no replica qualifies.
    """
    entry = names.find(target) if target.startswith("/") else None
    chosen = entry.blocks if isinstance(entry, File) else [target] if target else blocks.blocks
    found: list[tuple[str, NodeId]] = []
    for block in chosen:
        state = blocks.blocks.get(block)
        holders = [node for node in state.good() if node in up] if state is not None and state.target else []
        if target or len(holders) > 1:
            found += [(block, node) for node in holders if not nodes or node in nodes]
    return found[int(luck * len(found))] if found else None
