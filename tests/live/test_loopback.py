"""What a run on this host alone serves is reached from this host alone."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from pathlib import Path

import psutil
import pytest

from tests.harness.command import Command, write_scenario

pytestmark = pytest.mark.live


def is_loopback(text: str) -> bool:
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def listening(processes: list[psutil.Process]) -> dict[str, set[str]]:
    """On which addresses each of them accepts connections, by command line."""
    found: dict[str, set[str]] = {}
    for process in processes:
        try:
            line = " ".join(process.cmdline())
            sockets = process.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        addresses = {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
        if addresses:
            found.setdefault(line, set()).update(addresses)
    return found


def test_a_local_run_listens_on_the_loopback_interface_only(tmp_path: Path) -> None:
    command = Command(
        tmp_path,
        "run",
        str(write_scenario(tmp_path)),
        "--out",
        str(tmp_path / "out"),
        "--no-live",
        "--webhdfs",
        "0",
    )
    command.wait_for_attempts()
    found = listening([psutil.Process(command.process.pid), *command.processes()])
    command.interrupt()
    assert command.wait() == 130, command.text()
    who = " ".join(found)
    assert (
        "gcs_server" in who
        and "raylet" in who
        and "schedbed.cluster.agent.agent" in who
        and "NameNode" in who
    )
    assert {
        line: addresses for line, addresses in found.items() if not all(map(is_loopback, addresses))
    } == {}
