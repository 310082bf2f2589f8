"""Consistency checks of the NameNode's tables: each sum and list is recomputed from single replicas."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.search.violation import Violation, hold

BALANCE = "the NameNode's books balance"
FILED = "blocks are filed by what they lack"


def check_blocks(names: Any, *, restarted: bool) -> None:
    """Raise Violation if the NameNode's tables contradict each other.

    A NameNode that has `restarted` may lack replicas that are in the journal.
    """
    blocks, replication = names._blocks, names._blocks._replication
    states = blocks.map.blocks
    _check_loads(blocks.map)
    hold(states.keys() == blocks._names.owners.keys(), BALANCE, "blocks of no file, or files without blocks")
    for block, state in states.items():
        good = [node for node in state.replicas if node not in state.corrupt]
        hold(state.good() == good, "a corrupt replica is not good", state)
        hold(state.replicas.keys() <= blocks.map.nodes.keys(), BALANCE, state)
        bad = {node for node, held in state.replicas.items() if state.length not in (None, held)}
        hold(bad <= state.corrupt.keys(), "a replica of another length is corrupt", state)
        _check_filing(replication, block, state.target, len(good))
    marked = any(state.corrupt for state in states.values())
    hold(blocks.map.has_corrupt == marked, BALANCE, "corrupt blocks")
    over = {block: tuple(states[block].replicas) for block in replication._over}
    hold(replication._over == over, FILED, f"{replication._over} instead of {over}")
    over_on = {(node, block) for node, of_node in replication._over_on.items() for block in of_node}
    hold(over_on == {(n, b) for b, nodes in over.items() for n in nodes}, FILED, f"{over_on}, {over}")
    if not restarted:
        lives = {(block, node) for block, state in states.items() for node in state.replicas}
        hold(set(blocks._journal.living()) == lives, BALANCE, "replicas in the journal")
    levels = {block: good for good, waiting in replication._under.items() for block in waiting}
    hold(levels == replication._level, FILED, f"{levels} instead of {replication._level}")
    files = {block: file for block, file in blocks._names.owners.items() if file.is_input and file.complete}
    inputs = sum(file.blocks[block] * file.replication for block, file in files.items())
    hold(
        blocks._inputs_bytes == inputs, BALANCE, f"inputs of {blocks._inputs_bytes} instead of {inputs} bytes"
    )
    _check_copies(replication, states)


def _check_loads(there: Any) -> None:
    held: Counter[str] = Counter()
    lying: dict[str, set[str]] = {node: set() for node in there.nodes}
    promised: Counter[str] = Counter()
    for block, state in there.blocks.items():
        held.update(state.replicas)
        for node in state.replicas:
            lying[node].add(block)
        promised.update({node: length for node, (_, length) in state.expected.items()})
    for node, state in there.nodes.items():
        mine = lying[node]
        hold(state.blocks.keys() == mine, BALANCE, f"{node}: {sorted(state.blocks.keys() ^ mine)}")
        seen = f"{node}: {state.used_bytes} used of {held[node]}, {state.reserved_bytes} of {promised[node]}"
        hold((state.used_bytes, state.reserved_bytes) == (held[node], promised[node]), BALANCE, seen)
    loads = {node: held[node] + promised[node] for node in there.nodes}
    hold(there.field.load_bytes == loads, BALANCE, f"{there.field.load_bytes} instead of {loads}")
    hold(there.field.total_bytes == sum(loads.values()), BALANCE, f"a total of {there.field.total_bytes}")
    racks = {node: state.rack for node, state in there.nodes.items()}
    hold(there.field.racks == racks and there.field.names == sorted(racks), BALANCE, "the nodes' racks")


def _check_filing(replication: Any, block: str, target: int, good: int) -> None:
    """Check that a block waits for a copy while replicas are missing.

    It must wait for a deletion while there are too many replicas.
    """
    coming = len(replication._pending.get(block, ()))
    lacks = 0 < good < target - coming
    filed = block in replication._level or block in replication._parked
    over = target > 0 and good > target + replication.kept.count(block)
    level = replication._level.get(block)
    sorted_in = level is None or (level == good and block in replication._under[good])
    if filed != lacks or (block in replication._over) != over or not sorted_in:
        raise Violation(FILED, f"{block}: {good} good of {target}, {coming} coming")


def _check_copies(replication: Any, states: Any) -> None:
    """Check that no node sends or receives more copies than allowed, and that kept copies exist."""
    sends: Counter[str] = Counter()
    receives: Counter[str] = Counter()
    for block, copies in replication._pending.items():
        for target, copy in copies.items():
            sends[copy.source] += 1
            receives[target] += 1
            hold(target not in states[block].replicas, "a copy goes where none is", f"{block} to {target}")
    most = max([0, *sends.values(), *receives.values()])
    hold(most <= replication._limit, "few copies at a time", f"{sends}, {receives}")
    kept = replication.kept
    used = sum(sum(copies.values()) for copies in kept._copies.values())
    hold(kept._used_bytes == used, BALANCE, f"{kept._used_bytes} instead of {used} bytes of kept copies")
    for block, copies in kept._copies.items():
        hold(copies.keys() <= states[block].replicas.keys(), "kept copies are there", f"{block}: {copies}")
