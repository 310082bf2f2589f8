"""Container nodes on two hosts of a Ray cluster, each with a network and a Docker engine of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedbed.cluster.machines.docker.image import BASE
from schedbed.scheduler.history import read_tables
from tests.harness.command import eventually, outputs
from tests.harness.engine import engine_or_skip
from tests.harness.lan import Lan, LanHost, lan_or_skip
from tests.live.test_hosts import OUR_CODE, finish, start, start_raylet

pytestmark = [pytest.mark.live, pytest.mark.slow]  # two minutes, of which engines and images take one

ENGINE = {"DOCKER_HOST": "unix:///tmp/docker.sock"}
ASK = ["docker", "--host", ENGINE["DOCKER_HOST"]]
DOCKER = ("--machines", "docker", "--nodes", "3")
DOCKERD = [
    *("dockerd", "--host", ENGINE["DOCKER_HOST"], "--config-file", "/tmp/dockerd.json", "--bridge", "none"),
    *("--data-root", "/tmp/docker", "--exec-root", "/tmp/docker-exec", "--pidfile", "/tmp/docker.pid"),
]


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[Lan]:
    """Yield two hosts, each with a Ray process (raylet) and a Docker engine.

    Only the head has schedbed and the base image.
    """
    engine_or_skip()
    if shutil.which("dockerd") is None:
        pytest.skip("dockerd is not installed: no engine for each host")
    image = tmp_path / "base.tar"
    subprocess.run(["docker", "save", "--output", image, BASE], check=True)
    with lan_or_skip(tmp_path, {"head": [], "left": OUR_CODE}, cgroups=True) as lan:
        head, left = lan.hosts.values()
        engines = [start_engine(host) for host in (head, left)]
        shutil.copy(image, head.folder / "base.tar")
        head.run(*ASK, "load", "--quiet", "--input", "/tmp/base.tar")
        start_raylet(head, "--head", "--port=6379", "--include-dashboard=false", **ENGINE)
        start_raylet(left, f"--address={head.address}:6379", **ENGINE)
        yield lan
    for engine in engines:
        engine.wait()


def start_engine(host: LanHost) -> subprocess.Popen[bytes]:
    driver = subprocess.check_output(["docker", "info", "--format", "{{.Driver}}"], text=True).strip()
    (host.folder / "dockerd.json").write_text(json.dumps({"storage-driver": driver}))
    log = host.folder / "dockerd.log"
    engine = host.start(log, *DOCKERD)

    def answers() -> bool:
        assert engine.poll() is None, log.read_text()
        return host.tried(*ASK, "version")[0] == 0

    eventually(answers, f"{host.name} has no engine")
    return engine


def left_at(host: LanHost) -> str:
    """Return the ids of containers, networks and volumes of runs at the host's Docker engine, as text."""
    ours = ["--quiet", "--filter", "label=schedbed.run"]
    kinds = (["ps", "--all"], ["network", "ls"], ["volume", "ls"])
    return "".join(host.tried(*ASK, *kind, *ours)[1] for kind in kinds)


def test_containers_of_two_hosts_give_the_same_outputs_and_nothing_is_left_however_a_run_ends(
    lan: Lan, undisturbed: Path
) -> None:
    assert lan.hosts["left"].tried(*ASK, "image", "inspect", BASE)[0], "the other host has the image already"
    process, out = start(lan, "whole", *DOCKER, "--ports", "24100-24109", **ENGINE)
    finish(process, out)
    assert "sending the image of docker machines to left" in out.with_suffix(".log").read_text()
    assert not lan.hosts["left"].tried(*ASK, "image", "inspect", BASE)[0]
    assert outputs(out) == outputs(undisturbed)
    run = json.loads((out / "run.json").read_text())
    assert sorted(len(host["nodes"]) for host in run["hosts"].values()) == [1, 2]
    limits = run["runs"][0]["limits"]
    assert limits["memory"].startswith("docker cgroup") and limits["network"].startswith("software")
    attempts = read_tables(out)["attempts"]
    assert set(attempts["node"]) == {"n1", "n2", "n3"} and attempts["shuffle_bytes"].sum() > 0
    assert [left_at(host) for host in lan.hosts.values()] == ["", ""]

    process, out = start(lan, "killed", *DOCKER, **ENGINE)
    eventually(lambda: all(left_at(host) for host in lan.hosts.values()), "no containers", within_s=120)
    lan.hosts["head"].run("pkill", "-KILL", "-f", "schedbed run /tmp/scenario.yaml")
    process.wait()
    eventually(lambda: not any(left_at(host) for host in lan.hosts.values()), "containers are left")
