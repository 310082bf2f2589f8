"""A NameNode with little model nodes that keep blocks in dictionaries and do what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.cluster.blocks.namenode import NameNode


class World:
    """Nodes n1.. spread over `racks`; `disks` hold block -> length, also of dead nodes."""

    def __init__(self, nodes: int, racks: int = 1, journal: Path | None = None, **settings: Any) -> None:
        self.racks = {f"n{i}": f"r{i % racks}" for i in range(1, nodes + 1)}
        self.journal = journal
        self.settings = {"seed": 1, "order": list(self.racks), "copy_timeout_s": 60.0, **settings}
        self.disks: dict[str, dict[str, int]] = {node: {} for node in self.racks}
        self.bad: set[tuple[str, str]] = set()
        self.alive = list(self.racks)
        self.now_s = 0.0
        self.deleted: list[tuple[str, str]] = []
        self.names = NameNode(journal, **self.settings)
        for node in self.racks:
            self.register(node)

    def restart_name_node(self) -> None:
        """A new NameNode on the same journal; nodes still have to register."""
        self.names.shutdown()
        self.names = NameNode(self.journal, **self.settings)

    def register(self, node: str) -> None:
        blocks = [{"block": block, "length": length} for block, length in self.disks[node].items()]
        self.names.register(self.now_s, node, self.racks[node], f"http://{node}", blocks)

    def upload(self, path: str, lengths: list[int], replication: int, **how: Any) -> list[dict[str, Any]]:
        plan = self.names.plan_input(self.now_s, path, lengths, replication, **how)
        for planned in plan:
            self._store(planned["block"], planned["length"], planned["nodes"])
        self.names.input_uploaded(self.now_s, path)
        return plan

    def write(self, path: str, length: int, replication: int, writer: str | None = None) -> dict[str, Any]:
        given = self.names.allocate(self.now_s, path, writer, replication, length)
        self._store(given["block"], length, given["nodes"])
        self.names.complete(self.now_s, path, [{**given, "length": length}])
        return given

    def _store(self, block: str, length: int, nodes: list[str]) -> None:
        for node in nodes:
            self.disks[node][block] = length

    def kill(self, node: str) -> None:
        self.alive.remove(node)
        self.names.node_lost(self.now_s, node)

    def revive(self, node: str) -> None:
        self.alive.append(node)
        self.register(node)

    def spoil(self, node: str, block: str) -> None:
        """Bits rot, nobody knows yet."""
        self.bad.add((node, block))

    def good(self, block: str) -> list[str]:
        """Live nodes that really hold a good replica."""
        return [n for n in self.alive if block in self.disks[n] and (n, block) not in self.bad]

    def known(self, path: str) -> dict[str, list[str]]:
        """Where the NameNode says that the blocks of a file are."""
        return {block["block"]: sorted(block["nodes"]) for block in self.names.locate(path)}

    def beat(self, node: str) -> Sequence[Mapping[str, Any]]:
        """One heartbeat, its commands carried out at once."""
        commands = self.names.heartbeat(self.now_s, node)
        for command in commands:
            match command["type"]:
                case "replicate":
                    self._replicate(node, command["block"], command["to"][0])
                case "delete_block":
                    self.deleted.append((node, command["block"]))
                    self.disks[node].pop(command["block"], None)
                    self.bad.discard((node, command["block"]))
                    self.names.block_event(self.now_s, node, "removed", command["block"], 0)
                case "report_blocks":
                    self.register(node)
        return commands

    def _replicate(self, source: str, block: str, target: str) -> None:
        if (source, block) in self.bad:
            self.names.block_event(self.now_s, source, "corrupt", block, 0)
        elif target in self.alive:
            self.disks[target][block] = self.disks[source][block]
            self.bad.discard((target, block))
            self.names.block_event(self.now_s, target, "added", block, self.disks[target][block])

    def settle(self, rounds: int = 200) -> None:
        """Heartbeats of all live nodes, time going on, until there is nothing left to do for longer than a timeout."""
        quiet = 0
        for _ in range(rounds):
            self.now_s += 20.0
            did = [self.beat(node) for node in self.alive]
            quiet = 0 if any(did) else quiet + 1
            if quiet > 4:
                return
        raise AssertionError("the block store does not come to rest")
