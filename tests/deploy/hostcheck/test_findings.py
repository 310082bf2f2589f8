"""Tests the findings about hosts: the rows of the table, and the lines with advice."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from schedbed.cluster.host_clock import ClockReading
from schedbed.cluster.wire.port_range import PortRange
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.live import host_survey
from schedbed.deploy.live.host_survey import COLUMNS, HostFinding, all_missing, columns, rounds
from schedbed.tasks.units import format_rate

PORTS = PortRange(20000, 20100)


def host(name: str, **found) -> HostFinding:
    whole = {"address": f"10.0.0.{len(name)}", "ray_cpus": 2.0, "cores": 4.0}
    return HostFinding(name=name, **whole | found)


def lines(*findings: HostFinding, ports: PortRange | None = PORTS, machines: str = "process") -> list[str]:
    return all_missing(findings, ports, machines)


def test_a_row_has_a_cell_for_each_column() -> None:
    clock = ClockReading(at_s=0.0, offset_s=-0.08, bound_s=0.0004)
    for names in (["one"], ["one", "two"], [f"h{n}" for n in range(9)]):
        others = names if len(names) > 1 else []
        good = host("one", clock=clock, free_ports=100, to=dict.fromkeys(names[1:], 1.25e8))
        for each in (good, host("one", fault="no module numpy")):
            assert len(each.row(others)) == len(columns(names))
        if others:
            assert "-80.00 ± 0.40" in good.row(others) and format_rate(1.25e8) in good.row(others)
    assert len(columns(["one"])) == len(COLUMNS)


def test_hosts_that_lack_nothing_have_no_line() -> None:
    assert lines(host("one", free_ports=3, to={"two": 1e8}), host("two", to={"one": 1e8})) == []
    assert lines(host("one", engine_why="/var/run/docker.sock: No such file or directory")) == []


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (
            host("a", fault="no module numpy"),
            "a: it does not start our code: no module numpy; expected the same",
        ),
        (host("a", free_ports=0), "a: no port of 20000-20100 is free; end what listens there, or choose"),
        (
            host("a", to={"b": "Connection refused"}),
            "a: b is not reached from it (Connection refused); open TCP ports 20000-20100 between the hosts",
        ),
        (
            host("a", clock=ClockReading(at_s=0.0, offset_s=0.0, bound_s=0.3)),
            "a: its clock can be read to 0.30 s only",
        ),
        (
            host("a", engine_why="x: Permission denied"),
            "a: no engine: x: Permission denied; start Docker there",
        ),
        (host("a", image_why="there is no image; build it"), "a: there is no image; build it"),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(finding: HostFinding, line: str) -> None:
    (told,) = lines(finding, machines="docker")
    assert told.startswith(line)


def test_an_image_that_comes_with_the_run_is_not_missing() -> None:
    assert lines(host("a", image_why="there is no image", image_comes=True), machines="docker") == []


@given(st.integers(0, 9))
def test_all_pairs_are_measured_both_ways_and_none_at_the_same_time_as_another_of_its_hosts(
    count: int,
) -> None:
    names = [f"h{n}" for n in range(count)]
    found = rounds(names)
    assert sorted(pair for pairs in found for pair in pairs) == sorted(
        (left, right) for left in names for right in names if left != right
    )
    for pairs in found:
        busy = [name for pair in pairs for name in pair]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize("short", [True, False])
def test_the_command_fails_when_something_is_missing(short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [host("one", to={"two": 1e8}), host("two", to={"one": "timed out" if short else 1e8})]
    monkeypatch.setattr(host_survey, "survey", lambda address, ports: found)
    said = Console(file=io.StringIO(), width=200)
    if short:
        with pytest.raises(RunFailed, match=r"^1 of 2 hosts lack something$"):
            host_survey.check_hosts("auto", ports=None, machines="process", console=said)
    else:
        host_survey.check_hosts("auto", ports=None, machines="process", console=said)
    text = said.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "to one" in text and ("two: one is not reached from it (timed out)" in text) == short
    assert ("Nothing is missing." in text) != short
