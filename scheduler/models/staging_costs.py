"""The cost matrix of LSAP (xu2015 3.3.1; Guo, Fox and Zhou 2012): seconds to transfer each map's input to
each slot.

Rows are idle slots, columns candidate maps. Costs ignore other traffic. scipy solves the linear sum
assignment problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from schedbed.scheduler.view import NodeView, TaskView

FORBIDDEN = 1e9
"""Cost in seconds of a slot that the map's job avoids. The map gets the slot only if no other slot is left."""
FEW = 4
"""Largest number of nodes for which the matrix is computed row by row, which is faster for few nodes."""
_TIE = 1e-6


def staging_s(task: TaskView, node: NodeView, off_rack: float) -> float:
    """Return the seconds to transfer the input to the node, times `off_rack` from another rack."""
    if not task.hosts or node.node in task.hosts:
        return 0.0
    rate_bps = node.spec.network_bps
    seconds = task.split.length / rate_bps if rate_bps > 0 else FORBIDDEN
    return seconds if node.rack in task.racks else seconds * off_rack


def cost_matrix(slots: Sequence[NodeView], tasks: Sequence[TaskView], off_rack: float) -> Any:
    """Return transfer seconds by slot (rows) and task (columns). A node's slots must follow one another."""
    import numpy as np

    slots_by_node = Counter([node.node for node in slots])
    nodes = list({node.node: node for node in slots}.values())
    if len(nodes) <= FEW:
        costs = np.array([[staging_s(task, node, off_rack) for task in tasks] for node in nodes])
    else:
        costs = _node_costs(nodes, tasks, off_rack)
    return costs.repeat(list(slots_by_node.values()), axis=0)


def _node_costs(nodes: Sequence[NodeView], tasks: Sequence[TaskView], off_rack: float) -> Any:
    """Return an array of transfer times in seconds, with a row for each node and a column for each task."""
    import numpy as np

    width = len(tasks)
    by_node: dict[str, int] = {}  # Places of the rows' first entries in the flat array.
    by_rack: dict[str, list[int]] = {}
    for row, node in enumerate(nodes):
        by_node[node.node] = row * width
        by_rack.setdefault(node.rack, []).append(row * width)
    rates = [node.spec.network_bps for node in nodes]
    per_byte_s = np.array([1.0 / rate if rate > 0 else FORBIDDEN for rate in rates])
    lengths = np.array([float(task.split.length) for task in tasks])
    near = np.full((len(nodes), width), off_rack)
    flat = near.reshape(-1)
    in_rack, at_host, anywhere = list[int](), list[int](), list[int]()
    for column, task in enumerate(tasks):
        hosts = task.hosts
        if not hosts:
            anywhere.append(column)
            continue
        for rack in task.racks:
            if rack in by_rack:
                in_rack += [place + column for place in by_rack[rack]]
        for host in hosts:
            if host in by_node:
                at_host.append(by_node[host] + column)
    flat[in_rack] = 1.0
    flat[at_host] = 0.0
    near[:, anywhere] = 0.0
    return near * np.minimum(np.outer(per_byte_s, lengths), FORBIDDEN)


def solve(costs: Any) -> list[tuple[int, int]]:
    """Return (row, column) pairs of lowest total cost; earlier columns win ties."""
    import numpy as np

    rows, columns = costs.shape
    if rows == 1 or ((costs[-1] == costs[0]).all() and (costs == costs[0]).all()):
        cheapest = costs[0].argsort(kind="stable")[:rows]
        return [(row, int(column)) for row, column in enumerate(sorted(cheapest))]
    from scipy.optimize import linear_sum_assignment

    highest = float(costs.max(initial=0.0))
    if highest >= FORBIDDEN:
        highest = float(costs.max(initial=0.0, where=costs < FORBIDDEN))
    scale = max(1e-6, highest)
    chosen = linear_sum_assignment(costs + np.arange(columns) * (scale * _TIE / columns))
    return list(zip(chosen[0].tolist(), chosen[1].tolist(), strict=True))
