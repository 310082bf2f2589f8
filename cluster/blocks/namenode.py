"""The NameNode, the master of the block store, which manages files, blocks and replicas.

Methods take the time as `now_s` (seconds since the run's start) and return JSON values. Errors are raised as
BlockStoreError. Every change of the namespace is written to the journal before the method returns. The
journal does not contain the nodes of replicas: after a restart, the nodes report their replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from schedbed.cluster.blocks.block_errors import BadPath, NoNodes
from schedbed.cluster.blocks.block_status import check_blocks, pick_replica, status, summary
from schedbed.cluster.blocks.blockmanager import BlockManager
from schedbed.cluster.blocks.blockmap import BlockMap
from schedbed.cluster.blocks.input_layout import lay_out
from schedbed.cluster.blocks.live_nodes import NodeIndex
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode_journal import NamespaceJournal
from schedbed.cluster.blocks.namespace import Change, Directory, File, Namespace, block_id, clean
from schedbed.cluster.blocks.placement import PLACEMENTS, hot_nodes, place_hdfs
from schedbed.cluster.blocks.replication import Replication
from schedbed.cluster.masters import Json, Rows
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId

POLL_LIMIT = 10_000


class NameNode:
    """The master of the block store, which manages files, blocks and replicas.

    `order` lists the declared nodes; inputs with the placement `skewed` are stored on the first of these
    nodes only. If the journal contains files, the NameNode has restarted, and most replicas are not reported
    yet. Therefore no copies are made for `settle_s` seconds after the first node has registered.
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
        """Remove a node with all its replicas. Do nothing if the node is unknown."""
        self._blocks.node_lost(now_s, node)

    def heartbeat(self, now_s: float, node: NodeId) -> Rows:
        """Return the commands for a node that has sent a heartbeat; see `BlockManager.heartbeat`."""
        return self._blocks.heartbeat(now_s, node)

    def block_event(self, now_s: float, node: NodeId, event: str, block: str, length: int) -> None:
        """Process a node's report that a replica was added, kept, removed or found corrupt (`event`)."""
        self._blocks.block_event(now_s, node, event, block, length)

    def settling(self, now_s: float) -> bool:
        """Return whether a restarted NameNode still waits for block reports (HDFS calls this safe mode)."""
        return self._blocks.settling(now_s)

    def report_bad(self, now_s: float, block: str, node: NodeId) -> None:
        """Mark a replica as corrupt, because a reader could not use it; see `BlockManager.report_bad`."""
        self._blocks.report_bad(block, node)

    def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool}: whether a node should keep a block it fetched; see `BlockManager.keeps`."""
        return {"keep": self._blocks.keeps(node, block, budget)}

    def note_reads(
        self,
        now_s: float,
        reading: Mapping[str, int],
        serving: Mapping[NodeId, tuple[float, int]],
        scheme: DynamicReplicas,
    ) -> None:
        """Record the current reads of inputs, for Scarlett and CDRM; see `BlockManager.note_reads`."""
        self._blocks.note_reads(now_s, reading, serving, scheme)

    # -- writing ---------------------------------------------------------------------------------------------

    def create(self, now_s: float, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an empty file with `replication` wanted replicas. Raises PathExists if the path exists."""
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
        """Allocate the next block of a file, and return the block's id and nodes as {"block", "nodes"}.

        The file is created if it does not exist. `length_hint` is the expected block size in bytes. Up to
        `replication` nodes are returned, and `writer`, the node that writes the file, is the first if it can
        store the block. Nodes in `exclude` are not chosen. Raises NoNodes if no other node exists.
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
        """Mark a file as complete. `blocks` lists all its blocks as {"block", "length", "nodes"}.

        `nodes` are the nodes that stored the block. Allocated blocks that are not listed are discarded. A
        repeated call has no effect.
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
        """Create an input file and choose nodes for its blocks.

        Return a row {"block", "offset", "length", "nodes"} for each block. `lengths` are the block sizes in
        bytes. `placement` is hdfs, even or skewed; skewed stores all blocks on a share `skew` of the nodes.
        `preferred` may list, for each block, nodes to choose first. An incomplete file at the path is
        replaced.
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
        """Create a complete file in one step, for simulations. The journal is not written.

        `lengths` are the block sizes in bytes, and `places` the nodes of each block. Of an output, the first
        node is the writer's. The caller must have added the sizes of the replicas to the `loads` of the nodes.
        """
        creation = self._creation(now_s, path, replication, max(lengths, default=0)) | {"is_input": is_input}
        self._names.check(creation)
        self._names.apply(creation)
        file = self._names.file(path)
        self._names.fill(file, lengths, now_s)
        self._blocks.stored_whole(now_s, file, places)

    def next_block_number(self) -> int:
        """Return the number of the next block to be allocated."""
        return self._names.next_block_number()

    @property
    def loads(self) -> NodeIndex:
        """Return the index of the live nodes with the bytes that each stores."""
        return self._blocks.map.field

    def input_uploaded(self, now_s: float, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Mark an uploaded input as complete.

        `blocks` lists the blocks as for `complete`, or is None if the blocks are as planned by `plan_input`.
        """
        if blocks is None:
            state = self._blocks.map.blocks
            planned = self._names.file(path).blocks.items()
            blocks = [{"block": b, "length": size, "nodes": list(state[b].expected)} for b, size in planned]
        self.complete(now_s, path, blocks)

    # -- the tree --------------------------------------------------------------------------------------------

    def rename(self, now_s: float, src: str, dst: str) -> None:
        """Move `src` to the path `dst`, or into `dst` if `dst` is a directory. A repeated call has no effect.

        Raises PathNotFound if `src` does not exist, PathExists if `dst` is another file.
        """
        if not self._names.was_renamed(src, dst):
            target = self._names.rename_target(src, dst)
            self._change({"op": "rename", "src": src, "dst": target, "now_s": now_s})

    def delete(self, now_s: float, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete a file or directory. Return False if the path does not exist.

        Raises NotEmpty for a directory with entries unless `recursive` is true. If `for_good` is true,
        nothing can be created at the path afterwards. This blocks late writes by an attempt that was given
        up.
        """
        found, more = self._names.find(path) is not None, {"for_good": True} if for_good else {}
        if found or for_good:
            self._change({"op": "delete", "path": path, "recursive": recursive, "now_s": now_s, **more})
        return found

    def mkdirs(self, now_s: float, path: str) -> None:
        """Create a directory and its missing parents."""
        self._change({"op": "mkdirs", "path": path, "now_s": now_s})

    def concat(self, now_s: float, path: str, sources: Sequence[str]) -> None:
        """Move all blocks of the files `sources` to the end of the file at `path`, and remove `sources`."""
        self._change({"op": "concat", "path": path, "sources": list(sources), "now_s": now_s})
        self._blocks.retarget(self._names.file(path))

    def set_attributes(self, now_s: float, path: str, attributes: Json) -> None:
        """Set attributes of a file or directory: any fields of `Attributes`, and `modified_s`."""
        self._change({"op": "set_attributes", "path": path, "attributes": attributes, "now_s": now_s})

    def set_replication(self, now_s: float, path: str, replication: int) -> None:
        """Set the wanted number of replicas of a file. Nodes are then told to create or delete replicas."""
        self._change({"op": "set_replication", "path": path, "replication": replication, "now_s": now_s})
        file = self._names.file(path)
        if file.complete:  # Blocks of incomplete files have no target yet.
            self._blocks.retarget(file)

    def _change(self, change: Change) -> None:
        """Check a change, write it to the journal, apply it, and delete blocks that belong to no file now."""
        self._names.check(change)
        self._journal.append([change])
        self._blocks.forget(change["now_s"], self._names.apply(change))

    def _creation(self, now_s: float, path: str, replication: int, block_bytes: int) -> Change:
        sizes = {"replication": replication, "block_bytes": block_bytes}
        return {"op": "create", "path": clean(path), **sizes, "now_s": now_s}

    # -- questions -------------------------------------------------------------------------------------------

    def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return the blocks of a file in a byte range, as rows {"block", "offset", "length", "nodes"}.

        `nodes` are the live nodes with good replicas. Empty blocks are included. Blocks that are still being
        written are omitted.
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
        """Return the status of a file or directory (see `block_status.status`). Raises PathNotFound."""
        return status(self._names.get(path))

    def list(self, path: str) -> Rows:
        """Return the status of each child of a directory, or of a file itself. Raises PathNotFound."""
        entry = self._names.get(path)
        if isinstance(entry, Directory):
            return [status(entry.children[name]) for name in sorted(entry.children)]
        return [status(entry)]

    def content_summary(self, path: str) -> Json:
        """Return the total size and number of files and directories at a path; see `block_status.summary`."""
        return summary(self._names, self._names.get(path))

    def holders(self, block: str) -> list[NodeId]:
        """Return the live nodes with a good replica of a block. The list is empty for an unknown block."""
        state = self._blocks.map.blocks.get(block)
        return state.good() if state is not None else []

    def files(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Return an iterator over all files, each as the path and the block ids."""
        return ((file.path, file.blocks) for file in self._names.files())

    def block_length(self, block: str) -> int | None:
        """Return the length of a block in bytes, or None if it is being written or unknown."""
        state = self._blocks.map.blocks.get(block)
        return state.length if state is not None else None

    def blocks_on(self, node: NodeId) -> Rows:
        """Return the good replicas on a node in the format of a block report: [{"block", "length"}]."""
        return self._blocks.blocks_on(node)

    def has_orders(self) -> bool:
        """Return whether a heartbeat of some node could be answered with a command, now or later."""
        return self._blocks.has_orders()

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return the block and node of a replica for a fault, or None; see `block_status.pick_replica`."""
        return pick_replica(self._names, self._blocks.map, up, target, nodes, luck)

    def nodes(self) -> dict[NodeId, Json]:
        """Return a dictionary from live node to {"rack", "url", "used_bytes", "blocks" (their number)}."""
        return {
            node: {"rack": n.rack, "url": n.url, "used_bytes": n.used_bytes, "blocks": len(n.blocks)}
            for node, n in self._blocks.map.nodes.items()
        }

    def fsck(self) -> Json:
        """Return the ids of blocks with missing or corrupt replicas; see `block_status.check_blocks`."""
        return check_blocks(self._blocks.map)

    def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: up to 10,000 rows of blocks.parquet after `cursor`, and a new cursor."""
        cursor, rows = self._journal.ended(cursor, POLL_LIMIT)
        return {"cursor": cursor, "rows": rows}

    def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return blocks of inputs whose replicas changed since the last call, each with its good nodes."""
        return self._blocks.take_replica_changes()

    def has_replica_changes(self) -> bool:
        """Return whether replicas of input blocks have changed since the last `take_replica_changes`."""
        return self._blocks.has_replica_changes()

    def close(self, now_s: float) -> None:
        """Write a row of blocks.parquet, without a removal time, for each replica that still exists."""
        self._blocks.close()

    def shutdown(self) -> None:
        """Close the journal. No method of the NameNode may be called afterwards."""
        self._journal.close()
