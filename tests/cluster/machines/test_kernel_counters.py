"""The kernel's counters are read in the formats of both versions of control groups."""

from __future__ import annotations

import os
from pathlib import Path

from schedbed.cluster.machines.kernel_counters import GroupCounters, block_bytes, interface_bytes


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_version_1(tmp_path: Path) -> None:
    cpu = write(tmp_path / "cpu", cpuacct__usage="2500000000\n")
    stat = "cache 90\nactive_file 1\ntotal_inactive_file 300\ntotal_active_file 200\ntotal_rss 500\n"
    memory = write(tmp_path / "memory", memory__usage_in_bytes="1100\n", memory__stat=stat)
    group = GroupCounters(version=1, cpu=cpu, memory=memory)
    assert (group.cpu_s(), group.memory_bytes()) == (2.5, 600)


def test_version_2(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "node",
        cpu__stat="usage_usec 1500000\nuser_usec 1\n",
        memory__current="1000\n",
        memory__stat="anon 1\ninactive_file 300\nactive_file 100\nshmem 400\n",
    )
    group = GroupCounters(version=2, cpu=folder, memory=folder)
    assert (group.cpu_s(), group.memory_bytes()) == (1.5, 600)


def test_what_is_not_there_is_not_zero(tmp_path: Path) -> None:
    gone = GroupCounters(version=1, cpu=tmp_path / "gone", memory=tmp_path / "gone")
    assert (gone.cpu_s(), gone.memory_bytes()) == (None, None)
    unused = GroupCounters(version=2, cpu=None, memory=None)
    assert (unused.cpu_s(), unused.memory_bytes()) == (None, None)
    assert block_bytes("7:99", tmp_path) is None
    assert interface_bytes(1, proc=tmp_path) is None


def test_a_block_device(tmp_path: Path) -> None:
    write(tmp_path / "7:3", stat="  10 0 2000 5 20 0 4000 7 0 1 2 0 0 0 0 0 0\n")
    assert block_bytes("7:3", tmp_path) == (2000 * 512, 4000 * 512)


def test_an_interface(tmp_path: Path) -> None:
    head = "Inter-| Receive\n face |bytes\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
    text = head + "  eth0: 700 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n"
    write(tmp_path / "41" / "net", dev=text)
    assert interface_bytes(41, proc=tmp_path) == (900, 700)
    assert interface_bytes(41, "eth1", tmp_path) is None


def test_this_host_has_a_loopback_interface_that_is_counted() -> None:
    assert interface_bytes(os.getpid(), "lo") is not None
