"""The time that heartbeats cover, and sums over the heartbeats of nodes in time windows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results.measures.heartbeat_spans import HeartbeatSpans
from schedbed.tasks.chance import chance


def drawn(seed: int, rows: int) -> pd.DataFrame:
    luck = chance(seed, "heartbeats")
    made = pd.DataFrame(
        {
            "t": [luck.uniform(0.0, 60.0) for _ in range(rows)],
            "node": [f"n{luck.randint(1, 4)}" for _ in range(rows)],
            "cpu_util": [luck.choice((luck.random(), 1e16, 1.0)) for _ in range(rows)],
        }
    )
    return made if seed % 2 else made.sort_values("t", ignore_index=True)


@pytest.mark.parametrize("seed", range(6))
def test_the_sums_of_each_node_and_window_are_exact(seed: int) -> None:
    table = drawn(seed, 300)
    spans, used = HeartbeatSpans.of(table), table["cpu_util"].to_numpy()
    nodes, (covered, sums) = spans.sums(5.0, [spans.covered, used[spans.order]])
    rows = zip(spans.nodes.names[spans.nodes.codes], spans.t, spans.covered, used[spans.order], strict=True)
    groups: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for node, t, seconds, share in rows:
        groups.setdefault((node, int(t / 5.0)), []).append((seconds, share))
    assert list(groups) == sorted(groups) and any(len(group) > 5 for group in groups.values())
    assert nodes.names[nodes.codes].tolist() == [node for node, _ in groups]
    for found, place in ((covered, 0), (sums, 1)):
        wanted = [math.fsum(pair[place] for pair in group) for group in groups.values()]
        assert found.tolist() == pytest.approx(wanted, rel=1e-15, abs=0)


def test_a_heartbeat_covers_the_time_since_the_node_s_previous_one() -> None:
    table = pd.DataFrame({"t": [3.0, 1.0, 2.0, 7.0], "node": ["a", "a", "b", "b"]})
    assert HeartbeatSpans.of(table).in_rows().tolist() == [2.0, 0.0, 0.0, 5.0]


def test_no_heartbeats_have_no_sums() -> None:
    spans = HeartbeatSpans.of(drawn(0, 0))
    nodes, [covered] = spans.sums(5.0, [spans.covered])
    assert len(nodes) == 0 and covered.tolist() == [] and np.isfinite(spans.in_rows()).all()
