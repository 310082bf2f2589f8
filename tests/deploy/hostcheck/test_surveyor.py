"""Tests the measured transfer between two hosts, here over the loopback interface."""

from __future__ import annotations

import pytest

from schedbed.cluster.agent.config import LOOPBACK
from schedbed.cluster.wire.port_range import PortRange, listen_at
from schedbed.deploy.live import host_survey
from schedbed.deploy.live.host_survey import TOKEN_BYTES, Surveyor

TOKEN = "0" * TOKEN_BYTES


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_survey, "SEND_BYTES", 2**20)


def test_a_transfer_has_a_rate_and_ends_with_the_sink() -> None:
    there = Surveyor()
    port = there.listen(LOOPBACK, None, TOKEN)
    try:
        rate = Surveyor().send(LOOPBACK, port, TOKEN)
        assert isinstance(rate, float) and rate > 0
        assert isinstance(Surveyor().send(LOOPBACK, port, TOKEN[::-1].replace("0", "1")), str)
    finally:
        there.close()
    assert isinstance(Surveyor().send(LOOPBACK, port, TOKEN), str)


def test_ports_that_are_taken_are_not_counted() -> None:
    with listen_at(LOOPBACK) as taken:
        port = taken.getsockname()[1]
        assert Surveyor().free_ports(LOOPBACK, PortRange(port, port)) == 0
    assert Surveyor().free_ports(LOOPBACK, PortRange(port, port)) == 1
