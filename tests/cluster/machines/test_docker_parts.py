"""Parts of container nodes that need no Docker engine: the image's files, the `tc` script, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from schedbed.cluster.agent.cgroups import owner_lives, owner_mark
from schedbed.cluster.machines.docker import image, network
from schedbed.cluster.machines.docker.engine import connect, labels, run_name, sweep_containers
from schedbed.cluster.machines.make import check_machines
from schedbed.tasks.errors import BadInput


def test_the_image_holds_both_packages_and_nothing_else() -> None:
    sources = image._sources()
    assert {"schedbed/tasks/attempt.py", "schedbed/cluster/agent/agent.py"} <= set(sources)
    assert {name.split("/")[1] for name in sources} == {"__init__.py", "cluster", "tasks"}
    with tarfile.open(fileobj=image._context(sources), mode="r:gz") as tar:
        assert tar.getnames() == ["Dockerfile", *sources]
        member = tar.extractfile("schedbed/tasks/attempt.py")
        assert member and member.read() == sources["schedbed/tasks/attempt.py"]


def test_the_image_is_another_when_a_source_or_the_base_is() -> None:
    sources = {"tasks/a.py": b"1", "cluster/b.py": b"2"}
    first = image._hash(sources, "sha256:1")
    assert image._hash(dict(sources), "sha256:1") == first
    assert image._hash(sources, "sha256:2") != first
    assert image._hash({**sources, "tasks/a.py": b"3"}, "sha256:1") != first
    assert image._hash({"tasks/a.py": b"", "cluster/b.py": b"12"}, "sha256:1") != first


def test_both_directions_are_shaped_to_the_rate_and_the_bridge_is_left_out() -> None:
    script = network.shape(12.5e6, "172.20.0.1")
    rate = f"rate {int(12.5e6 * network.HEADERS * 8)}bit"
    assert [line.split()[4] for line in script.splitlines() if rate in line] == ["eth0", "ifb0"]
    assert script.count("src 172.20.0.1/32 flowid 1:20") == 1
    assert script.count(f"dst 172.20.0.1/32 {network.ANSWER} flowid 1:20") == 1
    assert script.count("prio 2 u32 match ip dst 172.20.0.1/32 flowid 1:30") == 1
    assert "class change dev ifb0" in network.change(1e6) and "8400000bit" in network.change(1e6)


def test_everything_of_a_run_is_labelled_with_its_owner() -> None:
    mine = labels("schedbed-1-x-run0", owner_mark())
    assert mine["schedbed.run"] == "schedbed-1-x-run0" and owner_lives(mine["schedbed.owner"])
    assert run_name("schedbed-1-x-run0") == "schedbed-1-x-run0" and run_name("a") == "schedbed-a"


def test_the_mark_of_a_dead_process_or_of_its_successor_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        mark = owner_mark(process.pid)
    assert not owner_lives(mark)
    assert not owner_lives(f"{os.getpid()}.1")
    assert owner_lives("someone else's")


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (
            "unix:///no/such/socket",
            "no engine to use: /no/such/socket: No such file or directory; start Docker",
        ),
        ("tcp://10.0.0.1:2375", "only a Unix socket is tried"),
    ],
)
def test_without_an_engine_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, host: str, says: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(BadInput, match="--machines docker") as refused:
        connect()
    assert says in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(BadInput):
        check_machines("docker")
    assert sweep_containers() == []


def test_an_engine_that_may_not_be_used_names_the_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse() -> str:
        return "/var/run/docker.sock: Permission denied"

    monkeypatch.setattr("schedbed.cluster.machines.docker.engine.docker_why", refuse)
    with pytest.raises(BadInput, match="usermod -aG docker"):
        connect()
