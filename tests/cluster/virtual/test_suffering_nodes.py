"""Disks that seek, page, or are shared by nodes: times by hand, without any other latencies."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.cluster.virtual.agenda import Agenda, Item
from schedbed.cluster.virtual.fluid.fluid import FluidEmulation
from schedbed.cluster.virtual.fluid.max_min import Flow, Resource, Sharing
from schedbed.cluster.virtual.latencies import NO_LATENCIES
from tests.harness.simulation import MB, Blocks, map_plan, node, reports, run

LOCAL = {"a": ["n0"], "b": ["n0"], "c": ["n1"], "d": ["n2"]}


def cluster(more: Any, store: Blocks | None = None, names: str = "n0 n1 n2") -> FluidEmulation:
    """Return an emulation of nodes with 1000 MB of memory and 100 MB/s of disk.

    `more` contains further fields of the nodes: a dictionary for all nodes, or one for each node by name.
    """
    emulation = FluidEmulation(store or Blocks(dict(LOCAL)), NO_LATENCIES)
    for name in names.split():
        emulation.node_up(0.0, node(name, **more.get(name, more)))
    return emulation


def ends(emulation: FluidEmulation) -> Any:
    """Return the end time of each attempt, such as `m_0`, in a form that is compared to the microsecond."""
    return pytest.approx(
        {name[6:9]: report.end_s for name, report in reports(run(emulation)).items()}, abs=1e-6, rel=0
    )


def test_streams_of_a_disk_that_seeks() -> None:
    """Two streams have 80 MB/s together: one reads its 100 MB in 2.5 s; the other's last 200 MB take 2 s."""
    emulation = cluster({"seek": 0.25})
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)]))
    emulation.launch(0.0, "n0", map_plan(1, [("b", 300 * MB)]))
    assert ends(emulation) == {"m_0": 2.5, "m_1": 4.5}


def test_tasks_that_declare_more_memory_than_there_is_slow_the_disk_until_one_has_ended() -> None:
    """Two tasks that declare 2000 of 1000 MB share 100 / 1.5 MB/s until one ends after 3 s.

    `paging` is 0.5. The last 200 MB of the other task come at 100 MB/s.
    """
    emulation = cluster({"paging": 0.5})
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)], memory_bytes=1000 * MB))
    emulation.launch(0.0, "n0", map_plan(1, [("b", 300 * MB)], memory_bytes=1000 * MB))
    emulation.launch(0.0, "n1", map_plan(2, [("c", 100 * MB)], memory_bytes=1000 * MB))
    assert ends(emulation) == {"m_0": 3.0, "m_1": 5.0, "m_2": 1.0}


def test_memory_that_is_just_enough_costs_nothing() -> None:
    emulation = cluster({"paging": 5.0})
    emulation.launch(0.0, "n0", map_plan(0, [("a", 50 * MB)], memory_bytes=400 * MB))
    emulation.launch(0.0, "n0", map_plan(1, [("b", 50 * MB)], memory_bytes=600 * MB))
    assert ends(emulation) == {"m_0": 1.0, "m_1": 1.0}


def test_seeks_paging_and_a_fault_multiply() -> None:
    """A fault (x 0.5), paging (/ 1.5) and seeks (/ 1.25) reduce a disk of 100 MB/s to 40 / 1.5 MB/s."""
    emulation = cluster({"seek": 0.25, "paging": 0.5})
    emulation.set_rates(0.0, "n0", 1.0, 0.5, 1.0)
    for index, block in enumerate("ab"):
        emulation.launch(0.0, "n0", map_plan(index, [(block, 20 * MB)], memory_bytes=1000 * MB))
    assert ends(emulation) == {"m_0": 1.5, "m_1": 1.5}


def test_a_killed_task_gives_the_memory_back() -> None:
    """Paging ends with a kill after 1 s at a third of 100 MB/s, shared by two tasks.

    By then the other task has read 50 / 3 MB of 300 MB. It reads the rest at 100 MB/s.
    """
    emulation = cluster({"paging": 2.0})
    plan = map_plan(1, [("b", 300 * MB)], memory_bytes=1000 * MB)
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)], memory_bytes=1000 * MB))
    emulation.launch(0.0, "n0", plan)
    emulation.kill(1.0, "n0", plan.attempt, "by hand")
    assert ends(emulation) == {"m_0": 1.0 + 250 / 300, "m_1": 1.0}


@pytest.mark.parametrize(("seek", "shared_s"), [(0.0, 2.0), (0.25, 2.5)])
def test_nodes_of_one_host_share_its_disk(seek: float, shared_s: float) -> None:
    """n0 and n1 share a disk of 100 MB/s, or of 80 MB/s with seeks; n2 has a disk of its own."""
    host = {"shared_disk": "h", "seek": seek}
    emulation = cluster({"n0": host, "n1": host, "n2": {"seek": seek}})
    for index, (name, block) in enumerate((("n0", "a"), ("n1", "c"), ("n2", "d"))):
        emulation.launch(0.0, name, map_plan(index, [(block, 100 * MB)]))
    assert ends(emulation) == {"m_0": shared_s, "m_1": shared_s, "m_2": 1.0}


@pytest.mark.parametrize(("seek", "end_s"), [(0.0, 2.0), (0.25, 2.5)])
def test_replicas_that_go_to_one_disk_are_written_once_each(seek: float, end_s: float) -> None:
    """100 MB for n0 and n1 are 200 MB on their shared disk: at 100 MB/s, or 80 MB/s with seeks."""
    more = {"shared_disk": "h", "seek": seek, "network_bps": 900.0 * MB}
    emulation = cluster(more, Blocks(others=["n1"]))
    plan = map_plan(0, output="/out/p", replication=2, output_bytes=100 * MB, block_bytes=100 * MB)
    emulation.launch(0.0, "n0", plan)
    assert ends(emulation) == {"m_0": end_s}


def test_two_replicas_and_a_read_have_a_third_of_the_disk_each() -> None:
    """The read of 50 MB ends after 1.5 s, when 50 of the block's 100 MB are written. The rest takes 1 s."""
    more = {"shared_disk": "h", "network_bps": 900.0 * MB}
    emulation = cluster(more, Blocks({"d": ["n2"]}, others=["n1"]))
    plan = map_plan(0, output="/out/p", replication=2, output_bytes=100 * MB, block_bytes=100 * MB)
    emulation.launch(0.0, "n0", plan)
    emulation.launch(0.0, "n2", map_plan(1, [("d", 50 * MB)]))
    assert ends(emulation) == {"m_0": 2.5, "m_1": 1.5}


def test_a_fault_of_one_node_leaves_the_rest_of_the_disk_to_the_others() -> None:
    """A fault limits n0 to 20 MB/s of the shared disk, so n1 has the other 80 MB/s."""
    emulation = cluster({"shared_disk": "h"})
    emulation.set_rates(0.0, "n0", 1.0, 0.2, 1.0)
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)]))
    emulation.launch(0.0, "n1", map_plan(1, [("c", 100 * MB)]))
    assert ends(emulation) == {"m_0": 5.0, "m_1": 1.25}


def test_the_disk_outlives_a_node_that_shares_it() -> None:
    """n1 dies after 1 s, when n0 has half of its data; n0 then has the whole disk."""
    emulation = cluster({"shared_disk": "h"})
    emulation.launch(0.0, "n0", map_plan(0, [("a", 100 * MB)]))
    emulation.launch(0.0, "n1", map_plan(1, [("c", 100 * MB)]))
    emulation.node_down(1.0, "n1")
    assert ends(emulation) == {"m_0": 1.5}


class Nobody:
    """An owner of flows whose end is never reached."""

    def fire(self, item: Item) -> None:
        raise AssertionError("nothing is due here")


def test_a_flow_that_passes_a_resource_twice_counts_twice() -> None:
    sharing = Sharing(Agenda())
    disk, other = Resource(90.0), [Resource(1000.0) for _ in range(4)]
    twice = Flow(Nobody(), 0, 1e4, 500.0, [other[0], disk, other[1], other[2], other[3], disk])
    once = Flow(Nobody(), 0, 1e4, 500.0, [disk])
    assert list(twice.repeated) == [disk]
    sharing.start(twice)
    sharing.settle()
    assert twice.rate == 45.0
    sharing.start(once)
    sharing.settle()
    assert (twice.rate, once.rate) == (30.0, 30.0)
    assert disk.moved_until(1.0) == pytest.approx(90.0)
    sharing.stop(twice)
    sharing.settle()
    assert once.rate == 90.0
    assert (disk.extra, list(disk.flows)) == (0, [once])
