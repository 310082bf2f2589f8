"""A node's usage comes from the kernel's counters where they exist, and from its agent otherwise."""

from __future__ import annotations

import pytest

from schedbed.cluster.machines.machine import KernelTotals
from schedbed.cluster.messages import Usage
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.tasktracker import NodeUsage, counted_by

NODE = NodeSpec(
    node="n1",
    rack="r1",
    cores=2,
    core_speed=0.1,
    memory_bytes=2**29,
    disk_bps=40e6,
    network_bps=10e6,
    map_slots=2,
    reduce_slots=1,
)
LYING = Usage(cpu_util=0.0, disk_util=0.01, net_util=0.02, memory_bytes=3)


def test_the_kernels_totals_win() -> None:
    usage = NodeUsage(NODE)
    usage.read(10.0, KernelTotals(cpu_s=1.0, disk_read_bytes=0, disk_write_bytes=0), 0.0, LYING)
    full = KernelTotals(
        cpu_s=1.5,
        memory_bytes=77,
        disk_read_bytes=10_000_000,
        disk_write_bytes=50_000_000,
    )
    found = usage.read(12.0, full, 0.0, LYING)
    assert found.cpu_util == pytest.approx(0.5 / 2 / 0.2)
    assert found.disk_util == pytest.approx(60e6 / 2 / 40e6)
    assert found.net_util == 0.02  # nobody but the agent counts it
    assert found.memory_bytes == 77


def test_launches_are_not_the_nodes_work() -> None:
    usage = NodeUsage(NODE)
    usage.read(0.0, KernelTotals(cpu_s=0.0), 0.0, LYING)
    assert usage.read(1.0, KernelTotals(cpu_s=0.25), 0.05, LYING).cpu_util == pytest.approx(1.0)


def test_the_busier_direction_of_the_nic_counts() -> None:
    usage = NodeUsage(NODE)
    usage.read(0.0, KernelTotals(sent_bytes=0, received_bytes=0), 0.0, LYING)
    found = usage.read(2.0, KernelTotals(sent_bytes=4_000_000, received_bytes=15_000_000), 0.0, LYING)
    assert found.net_util == pytest.approx(0.75)


def test_a_first_reading_says_nothing_and_a_hasty_one_repeats_the_last() -> None:
    usage = NodeUsage(NODE)
    assert usage.read(5.0, KernelTotals(cpu_s=9.0), 0.0, LYING).cpu_util == 0.0
    steady = usage.read(6.0, KernelTotals(cpu_s=9.1), 0.0, LYING).cpu_util
    assert steady == pytest.approx(0.5)
    assert usage.read(6.001, KernelTotals(cpu_s=9.2), 0.0, LYING).cpu_util == steady
    # What the hasty reading saw is not lost: the next one has it.
    assert usage.read(7.0, KernelTotals(cpu_s=9.2), 0.0, LYING).cpu_util == pytest.approx(0.5)


def test_who_counts_what() -> None:
    found = counted_by(KernelTotals(cpu_s=0.0, memory_bytes=0))
    assert found == {"cpu": "kernel", "memory": "kernel", "disk": "agent", "network": "agent"}
