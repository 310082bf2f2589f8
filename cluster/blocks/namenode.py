"""The NameNode, the master of the block store, which manages files, blocks and replicas.

Values are JSON, errors BlockStoreErrors, and `now_s` counts from the run's start. A change is in the journal
before its method returns. Nodes of replicas are not: after a restart, the nodes report them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedbed.cluster.blocks.block_errors import BadPath, NoNodes
from schedbed.cluster.blocks.blockmanager import BlockManager
from schedbed.cluster.blocks.blockmap import BlockMap
from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode_journal import NamespaceJournal
from schedbed.cluster.blocks.namespace import Change, Directory, Entry, File, Namespace, block_id, clean
from schedbed.cluster.blocks.placement import (
    PLACEMENTS,
    hot_nodes,
    place_even,
    place_file,
    place_hdfs,
    place_preferred,
)
from schedbed.cluster.blocks.replication import Replication
from schedbed.cluster.masters import Json, Rows
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId

POLL_LIMIT = 10_000


class NameNode:
    """The master of the block store. `order` lists the declared nodes; `skewed` inputs use the first of them.

    If the journal contains files, the NameNode has restarted: no copies are made until `settle_s` seconds
    after the first node has registered, since most replicas are not reported yet.
    """

    def __init__(
        self,
        journal: Path | str | NamespaceJournal | MemoryJournal | None = None,
        *,
        seed: int = 0,
        order: Sequence[NodeId] = (),
        copies_per_node: int = 2,
        copy_timeout_s: float = 60.0,
        settle_s: float = 5.0,
    ) -> None:
        self._seed = seed
        kept = isinstance(journal, NamespaceJournal | MemoryJournal)
        self._journal: NamespaceJournal | MemoryJournal = journal if kept else NamespaceJournal(journal)
        self._names = Namespace()
        for change in self._journal.changes():
            self._names.apply(change)
        replication = Replication(
            BlockMap(), seed=seed, copies_per_node=copies_per_node, timeout_s=copy_timeout_s
        )
        self._blocks = BlockManager(self._names, self._journal, replication, list(order), settle_s)

    # -- nodes -----------------------------------------------------------------------------------------------

    def register(self, now_s: float, node: NodeId, rack: str, url: str, blocks: Sequence[Json]) -> None:
        """Register a node whose replicas are exactly `blocks` ({"block", "length"}); forget older records."""
        self._blocks.register(now_s, node, rack, url, blocks)

    def node_lost(self, now_s: float, node: NodeId) -> None:
        self._blocks.node_lost(now_s, node)

    def heartbeat(self, now_s: float, node: NodeId) -> Rows:
        """See `BlockManager.heartbeat`."""
        return self._blocks.heartbeat(now_s, node)

    def block_event(self, now_s: float, node: NodeId, event: str, block: str, length: int) -> None:
        """See `BlockManager.block_event`."""
        self._blocks.block_event(now_s, node, event, block, length)

    def settling(self, now_s: float) -> bool:
        """Return whether block reports are missing after a restart (HDFS calls this safe mode)."""
        return self._blocks.settling(now_s)

    def report_bad(self, now_s: float, block: str, node: NodeId) -> None:
        """See `BlockManager.report_bad`."""
        self._blocks.report_bad(block, node)

    def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool}; see `BlockManager.keeps`."""
        return {"keep": self._blocks.keeps(node, block, budget)}

    def note_reads(
        self,
        now_s: float,
        reading: Mapping[str, int],
        serving: Mapping[NodeId, tuple[float, int]],
        scheme: DynamicReplicas,
    ) -> None:
        """See `BlockManager.note_reads`."""
        self._blocks.note_reads(now_s, reading, serving, scheme)

    # -- writing ---------------------------------------------------------------------------------------------

    def create(self, now_s: float, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an empty file with `replication` wanted replicas. Raises PathExists."""
        self._change(self._creation(now_s, path, replication, block_bytes))

    def reopen(self, now_s: float, path: str) -> None:
        """Make a complete file incomplete, so that blocks can be added. `complete` must be called again."""
        self._change({"op": "reopen", "path": path, "now_s": now_s})

    def allocate(
        self,
        now_s: float,
        path: str,
        writer: NodeId | None,
        replication: int,
        length_hint: int = 0,
        exclude: Sequence[NodeId] = (),
    ) -> Json:
        """Allocate a file's next block, {"block", "nodes"}, and create the file if it is missing.

        At most `replication` nodes, none of `exclude`, and the `writer` first if it can store the block.
        `length_hint` is in bytes. Raises NoNodes.
        """
        block, file = block_id(self._names.next_block_number()), self._names.find(path)
        field = self._blocks.map.field
        # Seeded by the position in the file, not by the id: ids depend on the order of requests in live runs.
        place = f"{path}:{len(file.blocks) if isinstance(file, File) else 0}"
        nodes = place_hdfs(field, replication, seed=self._seed, block=place, writer=writer, exclude=exclude)
        if not nodes:
            raise NoNodes(f"{path}: no node can take a block")
        if file is None:
            self._change(self._creation(now_s, path, replication, length_hint))
        self._change({"op": "allocate", "path": path, "block": block, "length": 0, "now_s": now_s})
        self._blocks.map.add_block(block)
        for index, node in enumerate(nodes):
            self._blocks.map.expect(block, node, "pipeline" if index else "write", length_hint)
        return {"block": block, "nodes": nodes}

    def complete(self, now_s: float, path: str, blocks: Sequence[Json]) -> None:
        """Complete a file with all its `blocks`, {"block", "length", "nodes"}. Allocated others are
        discarded.

        A repeated call has no effect.
        """
        lengths = [[raw["block"], raw["length"]] for raw in blocks]
        if not blocks and self._names.find(path) is None:
            self.create(now_s, path, 1)
        file = self._names.file(path)
        repeated = file.complete
        change = {"op": "complete", "path": path, "blocks": lengths, "now_s": now_s}
        self._names.check(change)
        if not repeated:  # A repeated call may name outdated holders.
            self._change(change)
            self._blocks.stored(now_s, file, {raw["block"]: raw["nodes"] for raw in blocks})

    # -- inputs ----------------------------------------------------------------------------------------------

    def plan_input(
        self,
        now_s: float,
        path: str,
        lengths: Sequence[int],
        replication: int,
        placement: str = "hdfs",
        preferred: Sequence[Sequence[NodeId]] | None = None,
        skew: float | None = None,
    ) -> Rows:
        """Create an input file and choose nodes. Return {"block", "offset", "length", "nodes"} of each block.

        `placement` is hdfs, even or skewed (on a share `skew` of the nodes). `preferred` may list nodes to
        choose first for each block. An incomplete file at the path is replaced.
        """
        if placement not in PLACEMENTS:
            raise BadPath(f"placement {placement!r}: expected {', '.join(PLACEMENTS)}")
        old = self._names.find(path)
        if isinstance(old, File) and not old.complete:
            self.delete(now_s, path)
        if not self._blocks.map.nodes:
            raise NoNodes(f"{path}: no node has registered")
        skew = (skew or 1.0) if placement == "skewed" else None
        if skew is not None:
            replication = min(replication, len(hot_nodes(self._blocks.order, skew)))
        creation = self._creation(now_s, path, replication, max(lengths, default=0))
        creation |= {"is_input": True, "placement": placement, "skew": skew}
        self._names.check(creation)
        first = self._names.next_block_number()
        ids = [block_id(first + index) for index in range(len(lengths))]
        allocations = [
            {"op": "allocate", "path": path, "block": block, "length": length, "now_s": now_s}
            for block, length in zip(ids, lengths, strict=True)
        ]
        self._journal.append([creation, *allocations])
        for change in (creation, *allocations):
            self._names.apply(change)
        return lay_out(self._names.file(path), self._blocks, self._seed, preferred)

    def store(
        self,
        now_s: float,
        path: str,
        replication: int,
        lengths: Sequence[int],
        places: Sequence[Sequence[NodeId]],
        *,
        is_input: bool,
    ) -> None:
        """Create a complete file in one step, in simulations, without the journal. `places` lists blocks'
        nodes.

        Of an output, the first node is the writer's. The caller must have added the sizes to the nodes'
        `loads`.
        """
        creation = self._creation(now_s, path, replication, max(lengths, default=0)) | {"is_input": is_input}
        self._names.check(creation)
        self._names.apply(creation)
        file = self._names.file(path)
        self._names.fill(file, lengths, now_s)
        self._blocks.stored_whole(now_s, file, places)

    def next_block_number(self) -> int:
        return self._names.next_block_number()

    @property
    def loads(self) -> NodeIndex:
        """Return the live nodes with the bytes that each stores."""
        return self._blocks.map.field

    def input_uploaded(self, now_s: float, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Complete an uploaded input, with `blocks` as for `complete`, or None for those of `plan_input`."""
        if blocks is None:
            state = self._blocks.map.blocks
            planned = self._names.file(path).blocks.items()
            blocks = [{"block": b, "length": size, "nodes": list(state[b].expected)} for b, size in planned]
        self.complete(now_s, path, blocks)

    # -- the tree --------------------------------------------------------------------------------------------

    def rename(self, now_s: float, src: str, dst: str) -> None:
        """Move `src` to `dst`, or into a directory `dst`. A repeated call has no effect."""
        if not self._names.was_renamed(src, dst):
            target = self._names.rename_target(src, dst)
            self._change({"op": "rename", "src": src, "dst": target, "now_s": now_s})

    def delete(self, now_s: float, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete an entry, and return whether there was one. NotEmpty unless `recursive`.

        With `for_good`, nothing can be created at the path later: this blocks late writes by an attempt that
        was given up.
        """
        found, more = self._names.find(path) is not None, {"for_good": True} if for_good else {}
        if found or for_good:
            self._change({"op": "delete", "path": path, "recursive": recursive, "now_s": now_s, **more})
        return found

    def mkdirs(self, now_s: float, path: str) -> None:
        self._change({"op": "mkdirs", "path": path, "now_s": now_s})

    def concat(self, now_s: float, path: str, sources: Sequence[str]) -> None:
        """Move all blocks of the files `sources` to the end of the file at `path`, and remove `sources`."""
        self._change({"op": "concat", "path": path, "sources": list(sources), "now_s": now_s})
        self._blocks.retarget(self._names.file(path))

    def set_attributes(self, now_s: float, path: str, attributes: Json) -> None:
        """Set attributes of a file or directory: any fields of `Attributes`, and `modified_s`."""
        self._change({"op": "set_attributes", "path": path, "attributes": attributes, "now_s": now_s})

    def set_replication(self, now_s: float, path: str, replication: int) -> None:
        self._change({"op": "set_replication", "path": path, "replication": replication, "now_s": now_s})
        file = self._names.file(path)
        if file.complete:  # Blocks of incomplete files have no target yet.
            self._blocks.retarget(file)

    def _change(self, change: Change) -> None:
        """Check, journal and apply a change, and delete blocks that belong to no file now."""
        self._names.check(change)
        self._journal.append([change])
        self._blocks.forget(change["now_s"], self._names.apply(change))

    def _creation(self, now_s: float, path: str, replication: int, block_bytes: int) -> Change:
        sizes = {"replication": replication, "block_bytes": block_bytes}
        return {"op": "create", "path": clean(path), **sizes, "now_s": now_s}

    # -- questions -------------------------------------------------------------------------------------------

    def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return {"block", "offset", "length", "nodes"} of a file's blocks in a byte range, empty ones
        included.

        `nodes` are live and have good replicas. Blocks that are still being written are omitted.
        """
        end = math.inf if length is None else offset + length
        found: Rows = []
        begin = 0
        file = self._names.file(path)
        for block, size in file.blocks.items():
            overlaps = begin + size > offset if size else file.complete and begin >= offset
            if begin < end and overlaps:
                nodes = self._blocks.map.blocks[block].good()
                found.append({"block": block, "offset": begin, "length": size, "nodes": nodes})
            begin += size
        return found

    def stat(self, path: str) -> Json:
        """Return the status of a file or directory; see `block_status.status`."""
        return status(self._names.get(path))

    def list(self, path: str) -> Rows:
        """Return the status of each child of a directory, or of a file itself. Raises PathNotFound."""
        entry = self._names.get(path)
        if isinstance(entry, Directory):
            return [status(entry.children[name]) for name in sorted(entry.children)]
        return [status(entry)]

    def content_summary(self, path: str) -> Json:
        """See `block_status.summary`."""
        return summary(self._names, self._names.get(path))

    def holders(self, block: str) -> list[NodeId]:
        """Return the live nodes with a good replica, none for an unknown block."""
        state = self._blocks.map.blocks.get(block)
        return state.good() if state is not None else []

    def files(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Return (path, block ids) of all files."""
        return ((file.path, file.blocks) for file in self._names.files())

    def block_length(self, block: str) -> int | None:
        """Return a block's bytes, or None if it is being written or unknown."""
        state = self._blocks.map.blocks.get(block)
        return state.length if state is not None else None

    def blocks_on(self, node: NodeId) -> Rows:
        """Return a node's good replicas as a block report, [{"block", "length"}]."""
        return self._blocks.blocks_on(node)

    def has_orders(self) -> bool:
        """See `BlockManager.has_orders`."""
        return self._blocks.has_orders()

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """See `block_status.pick_replica`."""
        return pick_replica(self._names, self._blocks.map, up, target, nodes, luck)

    def nodes(self) -> dict[NodeId, Json]:
        """Return a dictionary from live node to {"rack", "url", "used_bytes", "blocks" (their number)}."""
        return {
            node: {"rack": n.rack, "url": n.url, "used_bytes": n.used_bytes, "blocks": len(n.blocks)}
            for node, n in self._blocks.map.nodes.items()
        }

    def fsck(self) -> Json:
        """See `block_status.check_blocks`."""
        return check_blocks(self._blocks.map)

    def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: up to 10,000 rows of blocks.parquet after `cursor`."""
        cursor, rows = self._journal.ended(cursor, POLL_LIMIT)
        return {"cursor": cursor, "rows": rows}

    def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """See `BlockManager.take_replica_changes`."""
        return self._blocks.take_replica_changes()

    def has_replica_changes(self) -> bool:
        return self._blocks.has_replica_changes()

    def close(self, now_s: float) -> None:
        """Write a row of blocks.parquet, without a removal time, for each replica that still exists."""
        self._blocks.close()

    def shutdown(self) -> None:
        """Close the journal. No method may be called afterwards."""
        self._journal.close()


# Reports on the block store as JSON values: file status, directory totals, and the health of blocks.


def status(entry: Entry) -> dict[str, Any]:
    """Return an entry's status with its `Attributes`. `children` is their number, `name` the path's last part."""
    common = {"path": entry.path, "name": entry.name, "modified_s": entry.modified_s}
    common |= {**asdict(entry.attributes), "acl": list(entry.attributes.acl)}
    if isinstance(entry, File):
        sizes = {"length": entry.length, "replication": entry.replication, "block_bytes": entry.block_bytes}
        return {**common, "type": "file", **sizes, "complete": entry.complete, "children": 0}
    children = len(entry.children) if isinstance(entry, Directory) else 0
    sizes = {"length": 0, "replication": 0, "block_bytes": 0}
    return {**common, "type": "directory", **sizes, "complete": True, "children": children}


def summary(names: Namespace, top: Entry) -> dict[str, int]:
    """Return the sizes below and including `top`. `space` counts the bytes of all wanted replicas."""
    files = list(names.files(top))
    return {
        "length": sum(file.length for file in files),
        "files": len(files),
        "directories": sum(isinstance(entry, Directory) for entry in names.entries(top)),
        "space": sum(file.length * file.replication for file in files),
    }


def check_blocks(blocks: BlockMap) -> dict[str, Any]:
    """Return lists of bad blocks of complete files by their good replicas; `missing` have none."""
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
    """Choose a replica for a fault to hit, by `luck` from 0 to 1. Return (block, node), or None.

    `target` is a block, a path, or "" for all complete files' blocks with good replicas on two nodes in `up`.
    The node is in `up`, and in `nodes` unless empty.
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


# Choice of the nodes for the blocks of an input file, before the file is uploaded.


def lay_out(
    file: File, manager: BlockManager, seed: int, preferred: Sequence[Sequence[NodeId]] | None
) -> Rows:
    """Choose nodes for an input's blocks as its `placement` says. Return {"block", "offset", "length",
    "nodes"}.

    `skewed` uses a share `skew` of the nodes. Live nodes in `preferred`, a list for each block, are chosen
    first.
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
