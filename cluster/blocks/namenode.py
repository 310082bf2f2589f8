"""The NameNode, the master of the block store: namespace, block map and replication behind one set of methods.

Methods take the time as `now_s` (seconds since the run's start) and return JSON values; errors are BlockStoreErrors.
Every change of the namespace is written to the journal before it is answered. Replicas are not; they come from the
nodes' block reports.
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
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode_journal import NamespaceJournal
from schedbed.cluster.blocks.namespace import Change, Directory, File, Namespace, block_id, clean
from schedbed.cluster.blocks.placement import PLACEMENTS, hot_nodes, place_file, place_hdfs
from schedbed.cluster.blocks.replication import Replication
from schedbed.cluster.masters import Json, Rows
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.specs import NodeId

POLL_LIMIT = 10_000


class NameNode:
    """Files, their blocks and the locations of these. `order` are the declared nodes, first to last (the first are
    hot under `skewed`).

    A NameNode that finds files in its journal orders no copies for `settle_s` seconds after the first registration,
    since most replicas are just not reported yet.
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
        """Register a node that holds exactly these blocks ({"block", "length"}), in place of what was known of it."""
        self._blocks.register(now_s, node, rack, url, blocks)

    def node_lost(self, now_s: float, node: NodeId) -> None:
        """Remove a node with all its replicas. Unknown nodes are ignored."""
        self._blocks.node_lost(now_s, node)

    def heartbeat(self, now_s: float, node: NodeId) -> Rows:
        """Return the node's orders: `replicate` {block, to}, `delete_block` {block}, or `report_blocks` {} if the
        node is unknown."""
        return self._blocks.heartbeat(now_s, node)

    def block_event(self, now_s: float, node: NodeId, event: str, block: str, length: int) -> None:
        """Process a node's report that a replica was `added`, `kept` (see `keeps`), `removed` or found `corrupt`."""
        self._blocks.block_event(now_s, node, event, block, length)

    def settling(self, now_s: float) -> bool:
        """Return whether this NameNode has restarted and still waits for block reports, as in HDFS's safe mode."""
        return self._blocks.settling(now_s)

    def report_bad(self, now_s: float, block: str, node: NodeId) -> None:
        """Process a reader's report of a bad or missing replica; ignored for the last good one (see
        `BlockManager.report_bad`)."""
        self._blocks.report_bad(block, node)

    def keeps(self, node: NodeId, block: str, budget: float) -> Json:
        """Return {"keep": bool}: whether a node keeps a replica of the block that it fetches, within `budget` (share
        of all inputs)."""
        return {"keep": self._blocks.keeps(node, block, budget)}

    def note_reads(
        self,
        now_s: float,
        reading: Mapping[str, int],
        serving: Mapping[NodeId, tuple[float, int]],
        scheme: DynamicReplicas,
    ) -> None:
        """Count current readers of inputs: jobs by path, and by node its requests and slots. Sets replicas at the end
        of an epoch."""
        self._blocks.note_reads(now_s, reading, serving, scheme)

    # -- writing ---------------------------------------------------------------------------------------------

    def create(self, now_s: float, path: str, replication: int, block_bytes: int = 0) -> None:
        """Create an empty, incomplete file. Raises PathExists."""
        self._change(self._creation(now_s, path, replication, block_bytes))

    def reopen(self, now_s: float, path: str) -> None:
        """Make a complete file incomplete, so that blocks can be added, until `complete` is called with old and new
        blocks."""
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
        """Allocate another block of a file, which is created if necessary. Return {"block", "nodes"}, the writer's
        node first if it is one.

        Raises NoNodes if all nodes are excluded; fewer nodes than `replication` are no error.
        """
        block, file = block_id(self._names.next_block_number()), self._names.find(path)
        field = self._blocks.map.field
        # By its place in the file, not by its id: who asks first is chance, live, and policies are compared.
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

    def write_output(
        self,
        now_s: float,
        path: str,
        lengths: Sequence[int],
        *,
        writer: NodeId,
        replication: int,
        placed_as: str,
    ) -> None:
        """Create a complete file at once, its blocks placed as those of `placed_as` by `allocate`: for a simulation in
        which nothing happens to the file before its rename to `path`. Not written to the journal. Raises NoNodes."""
        self._names.apply(self._creation(now_s, path, replication, max(lengths)))
        file, field = self._names.file(path), self._blocks.map.field
        self._names.fill(file, lengths, now_s)
        for index, block in enumerate(file.blocks):
            place = f"{placed_as}:{index}"
            nodes = place_hdfs(field, replication, seed=self._seed, block=place, writer=writer)
            if not nodes:
                raise NoNodes(f"{path}: no node can take a block")
            self._blocks.wrote(now_s, file, block, nodes)

    def complete(self, now_s: float, path: str, blocks: Sequence[Json]) -> None:
        """Complete a file with its blocks in order ({"block", "length", "nodes"} that stored them).

        Allocated blocks that are not listed are abandoned. The call can be repeated.
        """
        lengths = [[raw["block"], raw["length"]] for raw in blocks]
        if not blocks and self._names.find(path) is None:
            self.create(now_s, path, 1)
        file = self._names.file(path)
        repeated = file.complete
        change = {"op": "complete", "path": path, "blocks": lengths, "now_s": now_s}
        self._names.check(change)
        if not repeated:  # what a repeat says of the holders may be out of date
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
        """Return the plan of a file of blocks of these lengths, to be uploaded: [{"block", "offset", "length",
        "nodes"}].

        `placement` is hdfs, even or skewed (with `skew`, the share of nodes that hold all blocks; the replication is
        limited to their number). `preferred` names nodes for each block, which come first. An incomplete upload of
        the same path is started again.
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

    def load_input(
        self, now_s: float, path: str, lengths: Sequence[int], replication: int
    ) -> dict[str, list[NodeId]]:
        """Place a file by HDFS's rule as `plan_input` does, complete it at once, and return the nodes of each block.

        For a simulation, which has no bytes to send. Not written to the journal.
        """
        creation = self._creation(now_s, path, replication, max(lengths, default=0)) | {"is_input": True}
        self._names.check(creation)
        self._names.apply(creation)
        file = self._names.file(path)
        self._names.fill(file, lengths, now_s)
        places = place_file(self._blocks.map.field, replication, list(file.blocks), lengths, seed=self._seed)
        self._blocks.loaded(now_s, file, places)
        return dict(zip(file.blocks, places, strict=True))

    def input_uploaded(self, now_s: float, path: str, blocks: Sequence[Json] | None = None) -> None:
        """Complete an uploaded input with these blocks ({"block", "length", "nodes"}), or as planned. The call can be
        repeated."""
        if blocks is None:
            state = self._blocks.map.blocks
            planned = self._names.file(path).blocks.items()
            blocks = [{"block": b, "length": size, "nodes": list(state[b].expected)} for b, size in planned]
        self.complete(now_s, path, blocks)

    # -- the tree --------------------------------------------------------------------------------------------

    def rename(self, now_s: float, src: str, dst: str) -> None:
        """Move a file or directory (into `dst` if that is a directory). Repeating a rename changes nothing.

        Raises PathNotFound without a source, PathExists if `dst` is another file.
        """
        if not self._names.was_renamed(src, dst):
            target = self._names.rename_target(src, dst)
            self._change({"op": "rename", "src": src, "dst": target, "now_s": now_s})

    def delete(self, now_s: float, path: str, recursive: bool = False, for_good: bool = False) -> bool:
        """Delete a file or directory. Return False if there is none. Raises WrongKind for a full directory unless
        `recursive`.

        With `for_good` the path is blocked for later writes, such as those of an attempt that was given up.
        """
        found, more = self._names.find(path) is not None, {"for_good": True} if for_good else {}
        if found or for_good:
            self._change({"op": "delete", "path": path, "recursive": recursive, "now_s": now_s, **more})
        return found

    def mkdirs(self, now_s: float, path: str) -> None:
        """Create a directory and its parents, unless they exist."""
        self._change({"op": "mkdirs", "path": path, "now_s": now_s})

    def concat(self, now_s: float, path: str, sources: Sequence[str]) -> None:
        """Add the blocks of other files to the end of a file; the others are gone then."""
        self._change({"op": "concat", "path": path, "sources": list(sources), "now_s": now_s})
        self._blocks.retarget(self._names.file(path))

    def set_attributes(self, now_s: float, path: str, attributes: Json) -> None:
        """Set any of the fields of `Attributes`, and `modified_s`."""
        self._change({"op": "set_attributes", "path": path, "attributes": attributes, "now_s": now_s})

    def set_replication(self, now_s: float, path: str, replication: int) -> None:
        """Set the number of replicas of each block of a file: heartbeats order what is missing or too much."""
        self._change({"op": "set_replication", "path": path, "replication": replication, "now_s": now_s})
        file = self._names.file(path)
        if file.complete:  # the blocks of others have no target yet
            self._blocks.retarget(file)

    def _change(self, change: Change) -> None:
        """Check a change, write it to the journal, apply it, and delete blocks that belong to no file any more."""
        self._names.check(change)
        self._journal.append([change])
        self._blocks.forget(change["now_s"], self._names.apply(change))

    def _creation(self, now_s: float, path: str, replication: int, block_bytes: int) -> Change:
        sizes = {"replication": replication, "block_bytes": block_bytes}
        return {"op": "create", "path": clean(path), **sizes, "now_s": now_s}

    # -- questions -------------------------------------------------------------------------------------------

    def locate(self, path: str, offset: int = 0, length: int | None = None) -> Rows:
        """Return the blocks that overlap a byte range (also empty blocks) as fields of BlockRange, with the live
        holders of good replicas.

        Of an incomplete file only the blocks with a known length are returned.
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
        """Return the status of each child by name, or of the file itself. Raises PathNotFound."""
        entry = self._names.get(path)
        if isinstance(entry, Directory):
            return [status(entry.children[name]) for name in sorted(entry.children)]
        return [status(entry)]

    def content_summary(self, path: str) -> Json:
        """Return {"length", "files", "directories", "space"}; `space` counts each byte once per wanted replica."""
        return summary(self._names, self._names.get(path))

    def holders(self, block: str) -> list[NodeId]:
        """Return the live nodes with a good replica of a block; none for an unknown block."""
        state = self._blocks.map.blocks.get(block)
        return state.good() if state is not None else []

    def files(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Return the path and the blocks of all files."""
        return ((file.path, file.blocks) for file in self._names.files())

    def block_length(self, block: str) -> int | None:
        """Return the length of a block in bytes; None while it is being written, and for an unknown block."""
        state = self._blocks.map.blocks.get(block)
        return state.length if state is not None else None

    def blocks_on(self, node: NodeId) -> Rows:
        """Return a node's good replicas as the node would report them: [{"block", "length"}]."""
        return self._blocks.blocks_on(node)

    def has_orders(self) -> bool:
        """Return whether a node's heartbeat could bring an order, now or after the copies in progress."""
        return self._blocks.has_orders()

    def pick_replica(
        self, up: Sequence[NodeId], target: str, nodes: Sequence[NodeId], luck: float
    ) -> tuple[str, NodeId] | None:
        """Return a replica for a fault, and the node that holds it: see `block_status.pick_replica`."""
        return pick_replica(self._names, self._blocks.map, up, target, nodes, luck)

    def nodes(self) -> dict[NodeId, Json]:
        """Return the live nodes: {"rack", "url", "used_bytes", "blocks"} (a count)."""
        return {
            node: {"rack": n.rack, "url": n.url, "used_bytes": n.used_bytes, "blocks": len(n.blocks)}
            for node, n in self._blocks.map.nodes.items()
        }

    def fsck(self) -> Json:
        """Return {"blocks": count} of complete files, and block ids by problem: see `block_status.check_blocks`."""
        return check_blocks(self._blocks.map)

    def poll(self, cursor: int = 0) -> Json:
        """Return {"cursor", "rows"}: rows of blocks.parquet since a cursor (at most 10,000; call again until
        empty)."""
        cursor, rows = self._journal.ended(cursor, POLL_LIMIT)
        return {"cursor": cursor, "rows": rows}

    def take_replica_changes(self) -> Sequence[tuple[str, Sequence[NodeId]]]:
        """Return the input blocks whose replicas changed since the last call, with the current holders of good
        ones."""
        return self._blocks.take_replica_changes()

    def has_replica_changes(self) -> bool:
        """Return whether `take_replica_changes` would return anything."""
        return self._blocks.has_replica_changes()

    def close(self, now_s: float) -> None:
        """Write rows for all replicas that exist at the end of the run (`removed` None). The call can be repeated."""
        self._blocks.close()

    def shutdown(self) -> None:
        """Close the journal. No method may be called afterwards."""
        self._journal.close()
