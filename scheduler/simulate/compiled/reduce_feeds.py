"""The announcement of map outputs to nodes that run reduces of the same job (compiled)."""

from __future__ import annotations

from schedbed.scheduler.simulate.compiled.jit import compiled, twin_of
from schedbed.scheduler.simulate.compiled.state import State


@twin_of("schedbed.scheduler.core.ledger:Ledger._feed")
@compiled
def feed_more(state: State, node: int, job: int) -> None:
    """Count one more running reduce of the job on the node. Mirrors `Ledger._feed`.

    After the first reduce, the job's map outputs are announced to the node in heartbeat replies.
    """
    entry = state.nodes[node]
    for place in range(entry.feeds):
        if state.feeds[node, place].job == job:
            state.feeds[node, place].reduces += 1
            return
    new = state.feeds[node, entry.feeds]
    new.job = job
    new.reduces = 1
    new.cursor = 0
    new.all_done = 0
    entry.feeds += 1


@twin_of("schedbed.scheduler.core.core_tables:CoreTables._feed_less")
@compiled
def feed_less(state: State, node: int, job: int) -> None:
    """Count one fewer running reduce of the job on the node. Mirrors `CoreTables._feed_less`.

    Without any reduce on the node, the job's map outputs are no longer announced to the node.
    """
    entry = state.nodes[node]
    for place in range(entry.feeds):
        if state.feeds[node, place].job == job:
            state.feeds[node, place].reduces -= 1
            if state.feeds[node, place].reduces == 0:
                entry.feeds -= 1
                for at in range(place, entry.feeds):
                    old, new = state.feeds[node, at + 1], state.feeds[node, at]
                    new.job = old.job
                    new.reduces = old.reduces
                    new.cursor = old.cursor
                    new.all_done = old.all_done
            return


@twin_of("schedbed.scheduler.core.core:_feed")
@compiled
def feed(state: State, node: int, count: int) -> int:
    """Add an announcement to the node's heartbeat reply for each job that has new map outputs for its
    reduces.

    `count` items are in the reply before. Returns the number of all items. Mirrors `core._feed`. Unlike in that
    function, without contention for resources the outputs of a job are announced only when all its maps are done.
    """
    fluid_too = state.num.is_fluid > 0
    for place in range(state.nodes[node].feeds):
        feed = state.feeds[node, place]
        maps = state.stages[2 * feed.job]
        done = maps.done == maps.total
        if (done and not feed.all_done) or (fluid_too and feed.cursor < maps.done):
            news = state.reply_items[(state.num.reply_items + count) % len(state.reply_items)]
            news.job = feed.job
            news.since = feed.cursor
            news.until = maps.done
            news.all_done = 1 if done else 0
            feed.cursor = maps.done
            feed.all_done = news.all_done
            count += 1
    return count
