"""Reference model of the replicas that a NameNode knows, made of sets and dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.search.violation import hold

KNOWS = "the NameNode knows what nodes have told"
ROWS = "rows of blocks tell each life of a replica"
Life = tuple[int, float, str]
"""A replica's length in bytes, its time of arrival and its cause."""


class KnownReplicas:
    """The replicas that nodes have reported, and those that a write is expected to add.

    `held` has the replicas of live nodes by block, `marks` the nodes with a corrupt replica, `coming` the
    expected replicas with their causes.
    """

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.epochs: Any = None
        self._paths: dict[str, str] = {}  # Path by block, for blocks that belong to a file.
        self._sizes: dict[str, tuple[int, int]] = {}  # Bytes and target by block, of complete files.
        self._inputs: set[str] = set()
        self._lives: dict[tuple[str, str], Life] = {}
        self._ended: list[tuple[Any, ...]] = []

    def start_over(self, names: Any) -> None:
        """Begin with a new NameNode, which knows the files but no nodes."""
        self.names = names
        self._targets: dict[str, int] = {}  # Targets raised by an epoch, by block.
        self._live: set[str] = set()
        self.held: dict[str, dict[str, int]] = {block: {} for block in self._paths}
        self.marks: dict[str, set[str]] = {block: set() for block in self._paths}
        self.coming: dict[str, dict[str, str]] = {block: {} for block in self._paths}
        self._unwanted: dict[str, set[str]] = {}
        self._leaving: dict[tuple[str, str], float] = {}
        self._told: dict[str, list[str]] = {}  # Last reported good holders of inputs, by block.
        self._copies: set[tuple[str, str]] = set()
        self.tries: Counter[str] = Counter()  # Copies planned since the last success, by block.

    # -------------------------------------------------------------- questions

    def has_blocks(self) -> bool:
        """Return whether any file has a block."""
        return bool(self._paths)

    def is_live(self, node: str) -> bool:
        """Return whether the node is registered."""
        return node in self._live

    def holds(self, node: str, block: str) -> bool:
        """Return whether the node has a replica of the block, good or corrupt."""
        return node in self.held.get(block, ())

    def good(self, block: str) -> list[str]:
        """Return the nodes that have a good replica of the block."""
        return [node for node in self.held.get(block, ()) if node not in self.marks[block]]

    def target(self, block: str) -> int:
        """Return the number of replicas wanted for the block; 0 while its file is written."""
        return self._targets.get(block, self._sizes.get(block, (0, 0))[1])

    def live_nodes(self) -> int:
        """Return the number of registered nodes."""
        return len(self._live)

    def inputs_bytes(self) -> int:
        """Return the size of all inputs in bytes, all replicas counted."""
        return sum(self._sizes[block][0] * self._sizes[block][1] for block in self._inputs)

    def leaving_until_s(self, block: str, node: str) -> float:
        """Return the time until which the node may still hold a block that it must delete.

        0 if the node was not ordered to delete the block.
        """
        return self._leaving.get((block, node), 0.0)

    def leaving(self, now_s: float) -> dict[tuple[str, str], float]:
        """Return the orders to delete that may still be pending, each with the time at which it expires."""
        return {key: until_s for key, until_s in self._leaving.items() if until_s > now_s}

    def unwanted(self) -> dict[str, set[str]]:
        """Return the blocks that belong to no file, by the node that must delete them."""
        return {node: set(blocks) for node, blocks in self._unwanted.items() if blocks}

    def endangered(self) -> dict[str, int]:
        """Return, for each block that has a replica, the number of good replicas."""
        return {block: len(self.good(block)) for block in self.held}

    def pending(self) -> set[tuple[str, str]]:
        """Return the copies in progress, each as block and target node."""
        copies = self.names._blocks._replication._pending
        return {(block, to) for block, each in copies.items() for to in each}

    def look(self) -> None:
        """Record the NameNode's copies in progress, for a comparison after the next event."""
        self._copies = self.pending()

    # ----------------------------------------------------------- what happens

    def registered(self, now_s: float, node: str, report: Mapping[str, int]) -> None:
        """Add a live node that holds exactly the blocks of its report."""
        self._live.add(node)
        self._unwanted.pop(node, None)
        for key in [key for key in self._leaving if key[1] == node]:
            del self._leaving[key]
        known = [block for block in self.held if node in self.held[block]]
        known += [block for block, on in self._lives if on == node]
        was_kept = {block for (block, on), life in self._lives.items() if on == node and life[2] == "dare"}
        for block in dict.fromkeys(known):
            if block not in report:
                self._gone(now_s, block, node)
        for block, length in report.items():
            self._came(now_s, block, node, length, "dare" if block in was_kept else "report")

    def lost(self, now_s: float, node: str) -> None:
        """Remove a node with its replicas; marks of corrupt replicas stay."""
        self._live.discard(node)
        self._unwanted.pop(node, None)
        for block in self.held:
            self.coming[block].pop(node, None)
            self.held[block].pop(node, None)
        for block in [block for block, on in self._lives if on == node]:
            self._end(block, node, now_s)
        for block in self.held:
            self._changed(block)

    def promised(self, block: str, path: str, nodes: Sequence[str], causes: Sequence[str]) -> None:
        """Add a block that is allocated on these nodes, each with the cause of its replica."""
        self._paths[block] = path
        self.held[block], self.marks[block] = {}, set()
        self.coming[block] = dict(zip(nodes, causes, strict=False))

    def completed(
        self,
        now_s: float,
        lengths: Mapping[str, int],
        holders: Mapping[str, Iterable[str]],
        target: int,
        *,
        is_input: bool,
    ) -> None:
        """Complete a file, with the holders that the writer has named."""
        for block, length in lengths.items():
            for node in holders[block]:
                if node in self._live and node not in self.held[block]:
                    self._came(now_s, block, node, length, "report")
            self._sizes[block] = length, target
            self.coming[block] = {}
            self.marks[block] |= {node for node, has in self.held[block].items() if has != length}
            if is_input:
                self._inputs.add(block)
            self._changed(block)

    def deleted(self, now_s: float, blocks: Iterable[str]) -> None:
        """Remove the blocks of a deleted file; every node that holds one must delete it."""
        for block in blocks:
            for node in self.held[block]:
                self._unwanted.setdefault(node, set()).add(block)
                self._end(block, node, now_s)
            for key in [key for key in self._leaving if key[0] == block]:
                del self._leaving[key]
            for known in (
                self._paths,
                self._sizes,
                self._targets,
                self.held,
                self.marks,
                self.coming,
                self._told,
            ):
                known.pop(block, None)
            self._inputs.discard(block)
            self.tries.pop(block, None)
            self.kept.forget(block)
            self.epochs.forget(block)

    def retarget(self, block: str, target: int) -> None:
        """Set the number of replicas wanted for the block."""
        if target != self.target(block):
            self._targets[block] = target
            self._changed(block)

    def told(self, now_s: float, node: str, event: str, block: str, length: int) -> None:
        """Apply a node's report of one block: `added`, `kept`, `removed` or `corrupt`."""
        if node not in self._live:
            return
        if event in ("added", "kept"):
            self.marks.get(block, set()).discard(node)
            self._came(now_s, block, node, length, "dare" if event == "kept" else "repair")
        elif event == "removed":
            self._gone(now_s, block, node)
        elif self.holds(node, block):
            self.marks[block].add(node)
            self._changed(block)

    def ordered_away(self, now_s: float, until_s: float, node: str, block: str) -> None:
        """Remove a replica that a node was ordered to delete; the node may hold it until `until_s`."""
        self._unwanted.get(node, set()).discard(block)
        if block in self.held:
            self._leaving[block, node] = until_s
            self.held[block].pop(node, None)
            self._end(block, node, now_s)
            self._changed(block)

    def _came(self, now_s: float, block: str, node: str, length: int, cause: str) -> None:
        if block not in self._paths:
            self._unwanted.setdefault(node, set()).add(block)
            return
        self._leaving.pop((block, node), None)
        expected = self.coming[block].pop(node, None)
        if (block, node) in self._copies:
            cause = self.epochs.cause(block)
            self.tries.pop(block, None)
        self._copies.discard((block, node))
        if block in self._sizes and self._sizes[block][0] != length:
            self.marks[block].add(node)
        if node not in self.held[block]:
            _, since_s, before = self._lives.get((block, node), (0, now_s, expected or cause))
            self._lives[block, node] = length, since_s, before
            if cause == "dare" and expected is None:
                self.kept.keep(block, node, length)
        self.held[block][node] = length
        self._changed(block)

    def _gone(self, now_s: float, block: str, node: str) -> None:
        self._leaving.pop((block, node), None)
        self._end(block, node, now_s)
        if block in self.held:
            self.marks[block].discard(node)
            self.held[block].pop(node, None)
            self._changed(block)

    def _end(self, block: str, node: str, now_s: float) -> None:
        life = self._lives.pop((block, node), None)
        if life is not None:
            self._ended.append((block, self._paths.get(block, ""), node, life[0], life[1], now_s, life[2]))

    def _changed(self, block: str) -> None:
        self.kept.settle(block, self.good(block), self.target(block))

    # ----------------------------------------------------------------- checks

    def deletions_due(self, node: str, surplus: Callable[[str], Sequence[str]]) -> set[str]:
        """Return the blocks that the node must be ordered to delete now.

        These are blocks of no file, corrupt replicas of blocks with a good one, and surplus replicas.
        """
        bad = {block for block in self.held if self.holds(node, block) and node in self.marks[block]}
        many = {block for block in self._sizes if node in surplus(block)}
        return self._unwanted.get(node, set()) | {block for block in bad if self.good(block)} | many

    def check_copy(self, now_s: float, source: str, command: Mapping[str, Any]) -> None:
        """Check an order to copy: the source has a good replica, and the target is live and has none."""
        (to,), block = command["to"], command["block"]
        seen = f"{now_s}: {command} by {source}, good on {self.good(block)}"
        hold(source in self.good(block), "who has a good replica sends it", seen)
        hold(self.is_live(to) and not self.holds(to, block), "a copy goes where none is", seen)
        hold(len(self.good(block)) < self.target(block), "no more copies than are wanted", seen)

    def check_targets(self, now_s: float, new: Iterable[tuple[str, str]]) -> None:
        """Check that no copy goes to a node with a pending order to delete that block."""
        for block, to in new:
            leaving = self._leaving.get((block, to), now_s) > now_s
            hold(not leaving, "a copy goes where none is", f"{now_s}: {block} to {to}, which deletes it")

    def check(self) -> None:
        """Compare the NameNode's replicas, corrupt marks, expected replicas and open rows with the model."""
        states = self.names._blocks.map.blocks
        hold(states.keys() == self.held.keys(), KNOWS, f"blocks {states.keys() ^ self.held.keys()}")
        for block, state in states.items():
            seen = f"{block}: {state} instead of {self.held[block]}, {self.marks[block]}"
            hold(state.replicas == self.held[block], KNOWS, seen)
            hold(set(state.corrupt) == self.marks[block], KNOWS, seen)
            causes = {node: cause for node, (cause, _) in state.expected.items()}
            hold(causes == self.coming[block], KNOWS, f"{seen}, promised {self.coming[block]}")
            hold(state.target == self.target(block), KNOWS, f"{seen}, wanted {self.target(block)}")
            hold(self.names.holders(block) == state.good(), KNOWS, seen)
        hold(set(self.names.nodes()) == self._live, KNOWS, f"nodes {set(self.names.nodes())}")
        for node in self._live:
            told = {each["block"]: each["length"] for each in self.names.blocks_on(node)}
            mine = {block: self.held[block][node] for block in self.held if node in self.good(block)}
            hold(told == mine, KNOWS, f"{node}: {told} instead of {mine}")
        journal = self.names._journal
        lives = {(block, node): life for node, each in journal._lives.items() for block, life in each.items()}
        hold(lives == self._lives, ROWS, f"{lives.items() ^ self._lives.items()}")

    def check_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that each removed replica has a row with its file, times and cause."""
        found = [tuple(row.values()) for row in rows]
        hold(sorted(found, key=str) == sorted(self._ended, key=str), ROWS, set(found) ^ set(self._ended))

    def check_closed(self, now_s: float, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that at the end each remaining replica has a row without an end time."""
        self._ended += [
            (block, self._paths.get(block, ""), node, length, since_s, None, cause)
            for (block, node), (length, since_s, cause) in self._lives.items()
        ]
        self.check_rows(rows)

    def check_changes(self, said: bool, changes: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Check the NameNode's list of inputs whose good holders have changed.

        Each change must be in the list once. `said` is whether the NameNode announced changes.
        """
        hold(said is bool(changes), "moved inputs are told of", f"{said}: {changes}")
        news = dict(changes)
        hold(news.keys() <= {*self._inputs}, "moved inputs are told of", f"{news.keys() - self._inputs}")
        for block in self._inputs:
            good = self.good(block)
            if block in news:
                hold(list(news[block]) == good, "moved inputs are told of", f"{block}: {news[block]}, {good}")
            before = self._told.get(block, [])
            hold(block in news or before == good, "moved inputs are told of", f"{block}: {before}, {good}")
            self._told[block] = good

    def check_rest(self, disks: Mapping[str, Any]) -> None:
        """Check that every block with a good replica has all wanted replicas.

        Disks must hold nothing else.
        """
        for block in self._sizes:
            good, many = len(self.good(block)), min(self.target(block), len(self._live))
            wanted = many + self.kept.count(block) if good else 0
            hold(good == wanted, "replicas are restored", f"{block}: {self.good(block)}, {wanted} wanted")
        for node, disk in disks.items():
            mine = {block for block in self.held if self.holds(node, block)}
            hold(
                set(disk.held) == mine,
                "disks hold what the NameNode knows",
                f"{node}: {set(disk.held) ^ mine}",
            )
