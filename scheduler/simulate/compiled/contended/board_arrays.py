"""Boards, which count the map outputs of one job that were announced to one node (compiled).

`cluster.virtual.boards` lists the outputs instead. A node's boards are a linked list.
"""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@compiled
def board_of(state: State, node: int, job: int) -> int:
    """Return the index of the job's board on the node, or -1. Also drops boards of ended jobs."""
    before, board = -1, state.nodes[node].board
    while board >= 0:
        entry = state.boards[board]
        if entry.job == job:
            return board
        if state.jobs[entry.job].ended:
            if before < 0:
                state.nodes[node].board = entry.next
            else:
                state.boards[before].next = entry.next
        else:
            before = board
        board = entry.next
    return -1


@twin_of("schedbed.cluster.virtual.fluid.shared_nodes:SharedNode.board")
@compiled
def own_board(state: State, node: int, job: int) -> int:
    """Return the index of the job's board on the node, made if missing."""
    board = board_of(state, node, job)
    if board < 0:
        board = state.num.boards
        state.num.boards += 1
        entry = state.boards[board]
        entry.job = job
        entry.heard = 0
        entry.all_done = 0
        entry.next = state.nodes[node].board
        state.nodes[node].board = board
    return board
