"""Servers that only listen on ports of a given range."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, closing

import pytest

from schedbed.cluster.agent.config import LOOPBACK, AgentConfig
from schedbed.cluster.spec import NodeSpec
from schedbed.cluster.wire.endpoint import Endpoint, listen
from schedbed.cluster.wire.port_range import PortRange, listen_at, parse_ports
from schedbed.tasks.errors import BadInput
from tests.harness.tables import NODES


def free_pair() -> PortRange:
    """Return a range of two consecutive ports that are free now."""
    for first in range(20000, 60000, 2):
        try:
            for port in (first, first + 1):
                socket.create_server((LOOPBACK, port)).close()
        except OSError:
            continue
        return PortRange(first, first + 1)
    raise AssertionError("no ports are free")


def test_a_range_is_first_and_last() -> None:
    assert list(parse_ports("20000-20002")) == [20000, 20001, 20002]
    assert list(parse_ports("65535-65535")) == [65535]


@pytest.mark.parametrize("text", ["", "20000", "20001-20000", "80-90", "1024-65536", "a-b", "-1-2"])
def test_what_is_no_range_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--ports .*: expected FIRST-LAST, such as 20000-20100"):
        parse_ports(text)


def test_listeners_take_what_is_free_until_nothing_is() -> None:
    pair = free_pair()
    with ExitStack() as stack:
        held = [stack.enter_context(closing(listen_at(LOOPBACK, ports=pair))) for _ in pair]
        assert [each.getsockname()[1] for each in held] == list(pair)
        with pytest.raises(BadInput, match=rf"^--ports {pair}: all are taken on {LOOPBACK}"):
            listen_at(LOOPBACK, ports=pair)
        with closing(listen_at(LOOPBACK)) as anywhere:
            assert anywhere.getsockname()[1] not in pair


def test_a_port_that_is_named_counts_more_than_the_range() -> None:
    pair = free_pair()
    with closing(listen_at(LOOPBACK, pair.last, PortRange(1024, 1024))) as named:
        assert named.getsockname()[1] == pair.last


def test_masters_serve_within_the_range() -> None:
    pair = free_pair()

    async def serve() -> int:
        server, place = await listen(Endpoint(host=LOOPBACK, ports=pair), asyncio.Protocol)
        server.close()
        return place.port

    assert asyncio.run(serve()) in pair


def test_an_agent_is_told_the_range(tmp_path) -> None:
    told = AgentConfig(
        node=NodeSpec(**NODES[0]),
        root=tmp_path,
        token="t",
        epoch_s=0.0,
        heartbeat_s=0.5,
        limits="off",
        run_id="r",
        ports=PortRange(20000, 20010),
    )
    assert AgentConfig.from_line(told.to_lines()) == told
