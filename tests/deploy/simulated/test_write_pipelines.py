"""Tests that simulated outputs are written without nodes that are down or full, and get their replicas later."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.scheduler.history import read_table
from tests.harness.damaged_runs import call

SCENARIO = """
name: pipelines
cluster: {nodes: 4, node: {map_slots: 1}}
blocks: {size: 4MiB, replication: 3}
workload:
  jobs:
    - {name: a, app: synthetic, maps: 6, map: {cpu: 2s, write: 8MiB}}
    - {name: b, app: synthetic, maps: 1, map: {cpu: 100s}}
faults: [{at: 1s, FAULT: n1, for: 30s}]
simulate: {contention: CONTENTION}
policies: [fifo]
"""


@pytest.mark.parametrize("fault", ["fill_disk", "kill"])
@pytest.mark.parametrize("contention", ["true", "false"])
def test_a_node_that_takes_no_block_is_left_out_and_its_replicas_are_repaired(
    tmp_path: Path, fault: str, contention: str
) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(SCENARIO.replace("FAULT", fault).replace("CONTENTION", contention))
    out = tmp_path / "out"
    code, text = call("run", file, "--machines", "sim", "--no-live", "--no-report", "--out", out)
    assert code == 0, text
    rows = read_table(out, "blocks")
    early = rows[(rows["added"] > 1.0) & (rows["added"] < 31.0)]
    assert len(early) and set(early["node"]) == {"n2", "n3", "n4"}
    replicas = rows[rows["removed"].isna()].groupby("block")["node"].nunique()
    assert len(replicas) == 12 and (replicas == 3).all()
