"""A run over two hosts with and without `--tls`, and what an eavesdropper on their network sees."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from schedbed.deploy.options import IN_CLEAR
from tests.harness.command import eventually, outputs
from tests.harness.lan import ROOT, Lan, lan_or_skip
from tests.live.test_hosts import CLI, CLUSTER, ENVIRONMENT, OUR_CODE, finish, nothing_is_left, start_raylet

pytestmark = [pytest.mark.live, pytest.mark.slow]  # minutes on hosts of a network of its own

MARKER = "a-marker-that-no-cipher-text-has"
TEXT = "".join(f"{MARKER} {number % 97}\n" for number in range(100_000))
SNIFFER = str(ROOT / "tests" / "harness" / "sniffer.py")
JOBS = [
    {"name": "words", "app": "wordcount", "input": "marked.txt", "reduces": 2, "user": "ana"},
    {
        "name": "burn",
        "app": "synthetic",
        "maps": 8,
        "map": {"cpu": "30s", "read": "16MiB", "write": "16MiB"},
        "reduces": 1,
        "reduce": {"cpu": "20s", "write": "16MiB"},
        "user": "bo",
    },
]
FAULTS = [
    {"at": "20s", "partition": ["n1"], "for": "30s"},
    {"at": "20s", "delay": "n3", "by": "2s", "for": "30s"},
    {"at": "20s", "loss": "all", "share": 0.05, "for": "60s"},
    {"at": "40s", "restart": "namenode"},
    {"at": "60s", "kill": "n2", "for": "20s"},
]


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[Lan]:
    """Yield two hosts, each with a Ray process (raylet). Only the head can import schedbed."""
    with lan_or_skip(tmp_path, {"head": [], "left": OUR_CODE}) as lan:
        head, left = lan.hosts.values()
        start_raylet(head, "--head", "--port=6379", "--include-dashboard=false")
        start_raylet(left, f"--address={head.address}:6379")
        (head.folder / "marked.txt").write_text(TEXT)
        yield lan


def run(lan: Lan, name: str, *options: str, faults: list[dict[str, Any]]) -> tuple[dict[str, int], Path]:
    """Run a scenario over the hosts; return the counts of packets on their network, and the result folder."""
    head = lan.hosts["head"]
    scenario: dict[str, Any] = {
        "name": name, "seed": 3, "scale": 0.05, "cluster": CLUSTER | {"nodes": 3}, "workload": {"jobs": JOBS},
        "blocks": {"size": "16MiB", "replication": 2}, "policies": ["fifo"], "faults": faults,
    }  # fmt: skip
    (head.folder / f"{name}.yaml").write_text(yaml.safe_dump(scenario))
    said = head.folder / f"{name}-sniffer.log"
    sniffer = head.start(said, sys.executable, SNIFFER, "br0", MARKER)
    eventually(lambda: "ready" in said.read_text(), "no sniffer")
    given = [f"/tmp/{name}.yaml", "--out", f"/tmp/{name}", "--keep-outputs", "--no-live", "--no-report"]
    log = head.folder / f"{name}.log"
    command = head.start(log, *CLI, "run", *given, *options, "--address", "auto", **ENVIRONMENT)
    try:
        finish(command, head.folder / name)
    finally:
        for inside in psutil.Process(sniffer.pid).children():
            inside.terminate()
        sniffer.wait()
    return json.loads(said.read_text().splitlines()[-1]), head.folder / name


def test_somebody_who_listens_sees_blocks_without_tls_only_and_faults_change_no_output(lan: Lan) -> None:
    clear, plain = run(lan, "clear", faults=[])
    assert clear["marked"] > 100 and plain.with_suffix(".log").read_text().count(IN_CLEAR) == 1
    sealed, out = run(lan, "sealed", "--tls", faults=FAULTS)
    assert sealed["bytes"] > len(TEXT) and sealed["marked"] == 0
    assert IN_CLEAR not in out.with_suffix(".log").read_text()
    assert outputs(out) == outputs(plain) and any(MARKER.encode() in part for part in outputs(out).values())
    nothing_is_left(*lan.hosts.values())
