"""Reference for HDFS's placement of replicas.

The first replica goes to the writer, the second to another rack, the third to the rack of the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.replication import Replication
from tests.search.violation import hold

CHECK = "replicas go where HDFS puts them"


def check_places(
    racks: Mapping[str, str],
    loads: Mapping[str, int],
    chosen: Sequence[str],
    count: int,
    *,
    writer: str | None = None,
    existing: Sequence[str] = (),
) -> None:
    """Raise Violation unless the chosen nodes follow the rule; `existing` has the racks of earlier replicas.

    A node with more than twice the mean load is chosen only if the rule allows no other.
    """
    seen = f"{list(chosen)} of {dict(racks)}, loads {dict(loads)}, written on {writer}, others in {existing}"
    hold(len(chosen) == min(count, len(racks)), CHECK, f"{seen}: {count} wanted")
    limit = 2 * sum(loads[node] for node in racks) / max(1, len(racks))
    held = list(existing)
    for place, node in enumerate(chosen):
        left = [other for other in racks if other not in chosen[:place]]
        if not held and writer in left:
            allowed = [writer]
        elif held and len(set(held)) == 1:
            allowed = [other for other in left if racks[other] != held[0]] or left
        elif len(held) == 2:
            allowed = [other for other in left if racks[other] == held[1]] or left
        else:
            allowed = left
        light = [other for other in allowed if loads[other] <= limit] or allowed
        hold(node in (allowed if allowed == [writer] else light), CHECK, f"{seen}: {node} is none of {light}")
        held.append(racks[node])


def _pending(replication: Any) -> list[tuple[str, str, Any]]:
    return [(block, to, copy) for block, each in replication._pending.items() for to, copy in each.items()]


@contextmanager
def watched_places() -> Iterator[None]:
    """Check all placements and orders to copy of all NameNodes, while the context lasts."""
    allocate, plan, choose = NameNode.allocate, NameNode.plan_input, Replication._choose
    surplus, copies = Replication._surplus, Replication.copies

    def allocated(names: Any, now_s: float, path: str, writer: str | None, count: int, *more: Any) -> Any:
        field = names._blocks.map.field
        racks, loads = dict(field.racks), dict(field.load_bytes)
        answer = allocate(names, now_s, path, writer, count, *more)
        check_places(racks, loads, answer["nodes"], count, writer=writer)
        return answer

    def planned(names: Any, now_s: float, path: str, lengths: Any, count: int, **more: Any) -> Any:
        field = names._blocks.map.field
        racks, loads = dict(field.racks), dict(field.load_bytes)
        rows = plan(names, now_s, path, lengths, count, **more)
        for row in rows if more.get("placement") == "hdfs" and not more.get("preferred") else ():
            check_places(racks, loads, row["nodes"], count)
            for node in row["nodes"]:
                loads[node] += row["length"]
        return rows

    def chose(replication: Any, block: str, taken: dict[str, None]) -> str:
        node = choose(replication, block, taken)
        if block in replication.raised:  # `epoch_rule` checks these placements.
            return node
        there = replication.map.nodes
        held = [*replication.map.blocks[block].good(), *replication._pending.get(block, ())]
        free = {target: state for target, state in there.items() if target not in taken}
        racks = {target: state.rack for target, state in free.items()}
        loads = {target: state.used_bytes + state.reserved_bytes for target, state in free.items()}
        check_places(racks, loads, [node], 1, existing=[there[each].rack for each in held])
        return node

    def trimmed(replication: Any, block: str, state: Any) -> list[str]:
        answer = surplus(replication, block, state)
        kept, there = replication.kept, replication.map.nodes
        good = [node for node in state.replicas if node not in state.corrupt]
        if answer and not kept.let_go(block):
            staying = [node for node in good if not kept.is_copy(block, node)]
            while len(staying) > state.target:
                racks = Counter(there[node].rack for node in staying)
                load = {node: there[node].used_bytes + there[node].reserved_bytes for node in staying}
                staying.remove(max(staying, key=lambda node: (racks[there[node].rack], load[node], node)))
            gone = set(good) - set(staying) - {node for node in good if kept.is_copy(block, node)}
            hold(set(answer) == gone, "the fullest node of the fullest rack gives way", f"{block}: {answer}")
        return answer

    def ordered(replication: Any, now_s: float, node: str) -> Any:
        sent = [copy for _, _, copy in _pending(replication) if copy.sent]
        orders = copies(replication, now_s, node)
        for order in orders:
            (to,) = order["to"]
            again = any(copy is replication._pending[order["block"]][to] for copy in sent)
            hold(not again, "a copy is ordered once", f"{order} from {node}")
        waiting = [block for block, _, copy in _pending(replication) if copy.source == node and not copy.sent]
        hold(not waiting, "a copy is ordered once", f"{waiting} not from {node}")
        late = [block for block, _, copy in _pending(replication) if copy.until_s <= now_s]
        hold(not late, "a copy that takes too long is given up", f"{late} at {now_s}")
        return orders

    with (
        patch.object(Replication, "_surplus", trimmed),
        patch.object(Replication, "copies", ordered),
        patch.object(NameNode, "allocate", allocated),
        patch.object(NameNode, "plan_input", planned),
        patch.object(Replication, "_choose", chose),
    ):
        yield
