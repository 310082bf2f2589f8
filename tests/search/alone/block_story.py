"""A random test of the NameNode alone: DataNodes come, leave, send false reports and lose messages.

The NameNode is compared with a model that is built from the nodes' reports, the planned writes and the orders
to nodes. The model shares no code with `cluster.blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from schedbed.cluster.blocks import replication
from schedbed.cluster.blocks.memory_journal import MemoryJournal
from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.spec import DynamicReplicas
from schedbed.tasks.chance import chance
from tests.search.alone.copies_rule import REFUSED_LIMIT, CopiesRule
from tests.search.alone.epoch_rule import EpochRule
from tests.search.alone.kept_rule import KeptRule
from tests.search.alone.known_replicas import KnownReplicas
from tests.search.oracles.block_books import check_blocks
from tests.search.oracles.placement_rule import watched_places
from tests.search.violation import hold

TIMEOUT_S, SETTLE_S = 6.0, 4.0
ORDERS = "a node is ordered what the replicas need"


class Disk:
    """The disk of a simulated DataNode: the length of each stored block in bytes."""

    def __init__(self, name: str, rack: str) -> None:
        self.name, self.rack = name, rack
        self.up = False
        self.held: dict[str, int] = {}

    def report(self) -> list[dict[str, Any]]:
        """Return all stored blocks in the form of a block report."""
        return [{"block": block, "length": length} for block, length in self.held.items()]


class BlockStory:
    """A random test of the NameNode. `run` raises Violation if the NameNode contradicts the model."""

    def __init__(self, seed: int, steps: int) -> None:
        self._luck: Random = chance(seed, "blocks alone")
        luck = self._luck
        self._steps, self._seed = steps, seed
        self._now_s = 0.0
        racks = luck.choice((1, 2, 2, 3))
        count = luck.choice((2, 3, 4, 6, 8))
        self._disks = {f"n{at}": Disk(f"n{at}", f"r{luck.randrange(racks)}") for at in range(count)}
        self._limit = luck.choice((1, 2, 2))
        self._declared = [name for name in self._disks if luck.random() < 0.8]
        self._journal = MemoryJournal()
        self._files: dict[str, dict[str, int]] = {}  # Complete files: lengths by block, by path.
        self._paths = 0
        self._budget = luck.choice((0.1, 0.3, 0.5, 1.0))
        self._fetches = luck.choice((5, 20))  # Weight of fetches among the steps.
        self._settled_s: float | None = 0.0
        self._restarted = False
        self._kept = KeptRule()
        self._known = KnownReplicas(self._kept)
        self._sizes = luck.choice((range(1, 41), (10,), (10, 20)))  # Equal sizes fill budgets exactly.
        self._copies = CopiesRule(self._known, seed=seed, limit=self._limit, timeout_s=TIMEOUT_S)
        self._rows: list[dict[str, Any]] = []
        self._bases: dict[str, int] = {}  # The declared number of replicas of each input.
        self._epochs = EpochRule(self._known, _scheme(chance(seed, "epochs alone")))
        self._known.epochs = self._epochs
        self._start_over()

    def _start_over(self) -> None:
        """Start a new NameNode from the journal, which has the files but no replicas."""
        self.names: Any = NameNode(
            self._journal,
            seed=self._seed,
            order=list(self._declared),
            copies_per_node=self._limit,
            copy_timeout_s=TIMEOUT_S,
            settle_s=SETTLE_S,
        )
        has_blocks = self._known.has_blocks()
        self._restarted = self._restarted or has_blocks
        self._settled_s = None if has_blocks else 0.0
        self._kept.start_over()
        self._known.start_over(self.names)
        self._copies.watch(self.names)
        self._epochs.start_over(self.names)

    def run(self) -> None:
        """Run random steps with checks, then wait until no orders are left."""
        with watched_places(), patch.object(replication, "REFUSED_LIMIT", REFUSED_LIMIT):
            for disk in self._disks.values():
                if self._luck.random() < 0.9:
                    self._register(disk)
            steps = (
                (self._heartbeat, 9),
                (self._write, 4),
                (self._input, 3),
                (self._node_event, 5),
                (self._come_or_go, 3),
                (self._delete, 2),
                (self._fetch, 0 if self._epochs.scheme else self._fetches),
                (self._note_reads, 5 if self._epochs.scheme else 0),
                (self._wait, 4),
                (self._take_changes, 2),
                (self._restart, 0.15),
            )
            for _ in range(self._steps):
                what = self._luck.choices([step for step, _ in steps], [often for _, often in steps])[0]
                what()
                self._check()
            self._rest()

    # ------------------------------------------------------------------ steps

    def _live(self) -> list[Disk]:
        return [disk for disk in self._disks.values() if disk.up]

    def _register(self, disk: Disk) -> None:
        if disk.name not in self._declared:
            self._declared.append(disk.name)
        disk.up = True
        if self._settled_s is None:
            self._settled_s = self._now_s + SETTLE_S
        self._known.look()
        self.names.register(self._now_s, disk.name, disk.rack, "", disk.report())
        self._known.registered(self._now_s, disk.name, disk.held)

    def _come_or_go(self) -> None:
        luck, disk = self._luck, self._luck.choice(list(self._disks.values()))
        if not disk.up or luck.random() < 0.3:
            if luck.random() < 0.15:
                disk.rack = f"r{luck.randrange(3)}"
            if luck.random() < 0.2:
                disk.held = {block: length for block, length in disk.held.items() if luck.random() < 0.6}
            self._register(disk)
        elif len(self._live()) > 1:
            disk.up = False
            self.names.node_lost(self._now_s, disk.name)
            self._known.lost(self._now_s, disk.name)
            if luck.random() < 0.2:
                disk.held = {}
        if luck.random() < 0.1:
            self.names.node_lost(self._now_s, "a node that nobody knows")

    def _wait(self) -> None:
        self._now_s = round(self._now_s + self._luck.choice((0.5, 1.0, 3.0, TIMEOUT_S)), 3)

    def _restart(self) -> None:
        for disk in self._disks.values():
            disk.up = False
        self._start_over()

    def _write(self) -> None:
        """Write a file of some blocks, with random failures of the writer and the pipeline."""
        if not self._live():
            return
        luck, self._paths = self._luck, self._paths + 1
        path = f"/f{self._paths}"
        writer = luck.choice([*self._disks, None])
        count = luck.randint(1, 3)
        done: list[dict[str, Any]] = []
        for _ in range(luck.choice((1, 1, 2, 3))):
            length = luck.choice(self._sizes)
            hint = luck.choice((length, length, 0, 16))
            made = self.names.allocate(self._now_s, path, writer, count, hint)
            block, nodes = made["block"], made["nodes"]
            self._known.promised(block, path, nodes, ["write", *["pipeline"] * len(nodes)])
            stored = [node for node in nodes if luck.random() < 0.9] or nodes[:1]
            for node in stored:
                self._store(node, block, length, early=0.4)
            if luck.random() < 0.15:
                stored.append(luck.choice(list(self._disks)))  # The writer names a wrong holder.
            done.append({"block": block, "length": length, "nodes": list(dict.fromkeys(stored))})
        if luck.random() < 0.1:
            return  # The writer never completes the file.
        self._complete(path, done, count, is_input=False)

    def _store(self, node: str, block: str, length: int, *, early: float) -> None:
        """Store a block on a node, sometimes cut short.

        `early` is the probability that the node reports the block before the writer does.
        """
        luck = self._luck
        held = max(1, length - 1) if luck.random() < 0.08 else length
        self._disks[node].held[block] = held
        if luck.random() < early:
            self._tell(node, "added", block, held)

    def _complete(self, path: str, done: list[dict[str, Any]], count: int, *, is_input: bool) -> None:
        self._files[path] = {each["block"]: each["length"] for each in done}
        holders = {each["block"]: each["nodes"] for each in done}
        self._known.look()
        if is_input:
            self.names.input_uploaded(self._now_s, path, done if self._luck.random() < 0.7 else None)
            if self._luck.random() < 0.2:
                self.names.input_uploaded(self._now_s, path, done)  # Repeated.
        else:
            self.names.complete(self._now_s, path, done)
        # Without holders in the upload, the planned nodes are the holders.
        self._known.completed(self._now_s, self._files[path], holders, count, is_input=is_input)
        for block, length in self._files[path].items():
            for node in holders[block]:
                self._disks[node].held.setdefault(block, length)

    def _input(self) -> None:
        """Plan an input file and upload it."""
        if not self._live():
            return
        luck, self._paths = self._luck, self._paths + 1
        path, count = f"/in{self._paths}", luck.randint(1, 3)
        lengths = [luck.choice(self._sizes) for _ in range(luck.choice((1, 2, 4)))]
        plan = self.names.plan_input(self._now_s, path, lengths, count, placement="hdfs")
        for row in plan:
            self._known.promised(row["block"], path, row["nodes"], ["input"] * len(row["nodes"]))
        self._bases[path] = count
        if self._epochs.scheme and luck.random() < 0.1:
            return  # The input is never uploaded.
        done = [{key: row[key] for key in ("block", "length", "nodes")} for row in plan]
        self._complete(path, done, count, is_input=True)

    def _delete(self) -> None:
        if self._files:
            path = self._luck.choice(list(self._files))
            self.names.delete(self._now_s, path)
            self._known.deleted(self._now_s, self._files.pop(path))

    def _tell(self, node: str, event: str, block: str, length: int) -> None:
        self._known.look()
        self.names.block_event(self._now_s, node, event, block, length)
        self._known.told(self._now_s, node, event, block, length)

    def _node_event(self) -> None:
        """Report a block from a random node: added, removed or corrupt.

        Some reports come twice, follow a disk error, or name a block of no file.
        """
        luck, disk = self._luck, self._luck.choice(list(self._disks.values()))
        event = luck.choice(("added", "added", "removed", "corrupt", "corrupt"))
        blocks = [block for lengths in self._files.values() for block in lengths]
        if not blocks:
            return
        block = luck.choice([*blocks, *list(disk.held)[:3], "blk_of_nobody"])
        length = next((lengths[block] for lengths in self._files.values() if block in lengths), 7)
        if event == "added":
            disk.held[block] = length = length if luck.random() < 0.9 else length + 3
        elif event == "removed":
            disk.held.pop(block, None)
        for _ in range(luck.choice((1, 1, 2))):
            self._tell(disk.name, event, block, length)

    def _fetch(self) -> None:
        """Read a block from another node, and check whether the reader may keep a copy."""
        luck = self._luck
        inputs = [
            block for path, lengths in self._files.items() if path.startswith("/in") for block in lengths
        ]
        other = [block for path, lengths in self._files.items() if path.startswith("/f") for block in lengths]
        if not inputs:
            return
        node = luck.choice(list(self._disks))
        block = luck.choice(inputs[:4] if luck.random() < 0.9 else [*inputs, *other, "blk_of_nobody"])
        answer = self.names.keeps(node, block, self._budget)["keep"]
        lengths = {b: size for each in self._files.values() for b, size in each.items()}
        known = block in inputs and self._known.is_live(node)
        if known:
            budget = self._budget * self._known.inputs_bytes()
            room = self._kept.read(block, lengths[block], budget)
            wanted = room and not self._known.holds(node, block)
        else:
            wanted = False
        hold(answer is wanted, "what is fetched stays within the budget", f"{node} {block}: {answer}")
        if answer and luck.random() < 0.9:
            self._disks[node].held[block] = lengths[block]
            self._tell(node, "kept", block, lengths[block])

    def _note_reads(self) -> None:
        """Give the NameNode random numbers of readers per input, and of requests per node."""
        luck, scheme = self._luck, self._epochs.scheme
        assert scheme is not None
        inputs = {path: lengths for path, lengths in self._files.items() if path.startswith("/in")}
        reading = {path: luck.randint(1, 5) for path in [*inputs, *self._bases, "/f1"] if luck.random() < 0.5}
        serving = {
            name: (luck.choice((0.0, 0.5, 1.0, 3.0)), luck.choice((0, 1, 2, 3)))
            for name in self._disks
            if luck.random() < 0.8
        }
        self._known.look()
        self.names.note_reads(self._now_s, reading, serving, scheme)
        self._epochs.noted(self._now_s, reading, serving, inputs, self._bases)

    def _take_changes(self) -> None:
        self._known.check_changes(self.names.has_replica_changes(), self.names.take_replica_changes())

    # ------------------------------------------------------------------ orders

    def _heartbeat(self) -> None:
        if self._disks:
            self._send_heartbeat(self._luck.choice(list(self._disks.values())), faithful=False)

    def _send_heartbeat(self, disk: Disk, *, faithful: bool) -> None:
        """Send a heartbeat and check the orders in its answer; unless `faithful`, some orders are lost."""
        luck, name = self._luck, disk.name
        idle = not self.names.has_orders()
        live = self._known.is_live(name)
        settled = self._settled_s is not None and self._now_s >= self._settled_s
        due = self._known.deletions_due(name, self._copies.surplus) if live else None
        before = self._known.endangered()
        pending = self._known.pending()
        commands = self.names.heartbeat(self._now_s, name)
        if not live:
            hold(commands == [{"type": "report_blocks"}], "an unknown node reports", f"{name}: {commands}")
            if disk.up or luck.random() < 0.5:
                self._register(disk)
            return
        seen = f"{self._now_s}: {name} is told {commands}"
        hold(not (idle and commands), "orders are announced", seen)
        gone = [command["block"] for command in commands if command["type"] == "delete_block"]
        copies = [command for command in commands if command["type"] == "replicate"]
        hold(settled or not copies, "no copies before replicas are reported", seen)
        hold(len(gone) + len(copies) == len(commands), ORDERS, seen)
        assert due is not None
        hold(set(gone) == due and len(gone) == len(due), ORDERS, f"{seen}: {sorted(due)} to delete")
        for block in gone:
            self._known.ordered_away(self._now_s, self._now_s + TIMEOUT_S, name, block)
        after = self._known.pending()
        self._known.check_targets(self._now_s, after - pending)
        new = [block for block in self.names._blocks._replication._pending if block not in dict(pending)]
        rank = [before.get(block, 0) for block in new]
        hold(rank == sorted(rank), "the most endangered block is copied first", f"{seen}: {new}: {rank}")
        for command in copies:
            self._known.check_copy(self._now_s, name, command)
        self._carry_out(disk, gone, copies, faithful=faithful)

    def _carry_out(
        self, disk: Disk, gone: Sequence[str], copies: Sequence[dict[str, Any]], *, faithful: bool
    ) -> None:
        luck = self._luck
        for block in gone:
            if faithful or luck.random() < 0.8:
                disk.held.pop(block, None)
                if faithful or luck.random() < 0.8:
                    self._tell(disk.name, "removed", block, 0)
        for command in copies:
            target, block = self._disks[command["to"][0]], command["block"]
            if target.up and block in disk.held and (faithful or luck.random() < 0.7):
                target.held[block] = disk.held[block]
                self._tell(target.name, "added", block, disk.held[block])

    # ------------------------------------------------------------------ checks

    def _check(self) -> None:
        check_blocks(self.names, restarted=self._restarted)
        self._known.check()
        self._kept.check(self.names._blocks._replication.kept)
        self._copies.check(self._now_s)
        self._epochs.check()
        cursor = self.names.poll(len(self._rows))
        self._rows += cursor["rows"]
        self._known.check_rows(self._rows)

    def _rest(self) -> None:
        """Let all nodes register and obey, and check that every block ends with the wanted replicas."""
        for disk in self._disks.values():
            self._register(disk)
        for rounds in range(60):
            if rounds > 5 and not self.names.has_orders():
                break
            self._now_s += TIMEOUT_S / 2
            for disk in self._disks.values():
                self._send_heartbeat(disk, faithful=True)
            self._check()
        self._known.check_rest(self._disks)
        hopeless = any(self._known.marks.values())  # Blocks with corrupt replicas.
        hold(hopeless or not self.names.has_orders(), "everything comes to rest", "there are orders left")
        self._take_changes()
        self.names.close(self._now_s)
        self._rows += self.names.poll(len(self._rows))["rows"]
        self._known.check_closed(self._now_s, self._rows)


def _scheme(luck: Random) -> DynamicReplicas | None:
    """Return random settings for replicas that follow reads; None in half of the tests."""
    scheme = DynamicReplicas(
        scheme=luck.choice(("scarlett", "cdrm")),
        epoch_s=luck.choice((0.5, 4.0, 12.0)),
        delta=luck.choice((0, 1, 2)),
        budget=luck.choice((0.1, 0.5, 2.0)),
        availability=luck.choice((0.9, 0.99, 0.9999)),
        failure=luck.choice((0.1, 0.3)),
    )
    return None if luck.random() < 0.5 else scheme
