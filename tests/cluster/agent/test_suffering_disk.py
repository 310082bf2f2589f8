"""Tests of the emulation of a declared disk: seeks, paging, and a disk shared by the nodes of a host."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedbed.cluster.agent.config import AgentConfig
from schedbed.cluster.agent.folder import AgentDir
from schedbed.cluster.agent.limits import NodeLimits, with_modeled
from schedbed.cluster.agent.link_budgets import disk_of, make_links
from schedbed.cluster.spec import NO_LINK_RATES, NodeSpec
from schedbed.tasks.pacing import LINK_BUCKET, Budget
from tests.harness.simulation import MB, node


def limits_of(root: Path, spec: NodeSpec, links: Path | None = None) -> NodeLimits:
    """Return the limits that software enforces on the node `spec`, whose new folder is `root`."""
    root.mkdir()
    config = AgentConfig(
        node=spec,
        root=root,
        token="t",
        epoch_s=0.0,
        heartbeat_s=0.2,
        limits="software",
        run_id="r",
        links=links,
    )
    return NodeLimits(config, AgentDir(root))


def test_the_disk_slows_with_the_memory_that_attempts_declare_and_with_faults(tmp_path: Path) -> None:
    limits = limits_of(tmp_path / "n1", node("n1", paging=0.5))
    budget = limits.budget
    assert budget is not None
    rates = []
    for declared in (1000 * MB, 3000 * MB):
        limits.declare_memory(declared)
        rates.append(budget.rate("disk"))
    limits.set_factors(cpu=1.0, disk=0.5, network=1.0)
    rates.append(budget.rate("disk"))
    limits.declare_memory(0)
    rates.append(budget.rate("disk"))
    assert rates == [100e6, 50e6, 25e6, 50e6]
    assert budget.rate("tx") == 50e6
    limits.remove()


def test_streams_of_nodes_of_one_host_pass_one_disk_that_seeks(tmp_path: Path) -> None:
    links = tmp_path / "links"
    specs = [node(name, shared_disk="h", seek=0.25) for name in ("n1", "n2")]
    make_links(links, specs, NO_LINK_RATES, stretch=2)
    shared = Budget.open(links / disk_of("h"))
    assert shared.rate(LINK_BUCKET) == 50e6
    nodes = [limits_of(tmp_path / spec.node, spec, links) for spec in specs]
    assert [each.shared_disk for each in nodes] == [links / disk_of("h")] * 2
    streams: Any = [each.stream("disk", "tx") for each in nodes]
    parts = [part for stream in streams for part in stream._streams]
    deque((part.reserve(500e6) for part in parts), maxlen=0)
    first, second = (stream._streams[-1] for stream in streams)
    assert second._level - first._level == pytest.approx(500e6 / 40e6)  # 50 MB/s of one stream, 40 of two
    assert shared.used(LINK_BUCKET) == 1e9
    del streams, parts, first, second
    for each in nodes:
        each.remove()
    shared.close()


def test_what_is_modelled_is_said() -> None:
    plain = node("n1")
    soft = "software (cooperating code only)"
    assert with_modeled(soft, plain) == soft
    both = replace(plain, seek=0.1, paging=1.0)
    assert with_modeled(soft, both) == "software; seeks, paging modeled (cooperating code only)"
    shared = replace(plain, shared_disk="h")
    assert with_modeled("loop device", shared) == "loop device; sharing modeled (cooperating code only)"
