"""Users' own applications on live nodes, as processes and in containers: outputs and error lines."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedbed.scheduler.history import read_tables
from schedbed.tasks.appkit.app_catalogue import generate
from tests.harness.command import Command, outputs, start_run
from tests.harness.engine import engine_or_skip, left_of

pytestmark = pytest.mark.live

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = {"generate": "text", "size": "600kB", "seed": 5}
GOOD = [
    {
        "app": f"{EXAMPLES}/word_pairs/word_pairs.py:WordPairs",
        "input": TEXT,
        "reduces": 2,
        "params": {"least": 2},
    },
    {
        "app": "streaming",
        "folder": f"{EXAMPLES}/longest_lines",
        "mapper": "python3 longest.py map",
        "combiner": "python3 longest.py reduce",
        "reducer": "python3 longest.py reduce",
        "input": TEXT,
    },
]
BAD = {
    "exit": ({"mapper": "echo here >&2; exit 3"}, "exited with status 3: here"),
    "missing": ({"mapper": "no-such-tool"}, "`no-such-tool` was not found on the node: "),
    "hang": ({"mapper": "sleep 1000", "params": {"task_timeout": "2s"}}, "hangs: it neither reads, writes nor ends"),
    "fork": ({"mapper": "sleep 1001 & exit 5"}, "exited with status 5"),
    "loud": ({"mapper": "yes | head -c 50000000 >&2; exit 6"}, "exited with status 6: y | y | y"),
    "endless": ({"mapper": "yes", "params": {"output_limit": "2MiB"}}, "the map wrote more than 2.0 MiB"),
    "class": ({"app": "bad.py:Bad"}, "bad.py:4: ZeroDivisionError: division by zero"),
}  # fmt: skip
CODE = "class Bad:\n    def map(self, line):\n        print(line)\n        return 1 / 0\n"
WRONG = {"app": "wrong.py:Wrong", "input": TEXT | {"size": "10kB"}}
WRONG_CODE = """
class Wrong:
    def map(self, line):
        yield "a", 1

    def check(self, lines, output):
        import os
        found = len(open('/proc/net/dev').readlines()) - 2
        return f"{len(list(output))} of {len(list(lines))} lines, user {os.getuid()}, {found} interface"
"""


def scenario(folder: Path, jobs: list[dict[str, Any]]) -> Path:
    path = folder / "scenario.yaml"
    node = {"cores": 2, "core_speed": 0.3, "map_slots": 2}
    values = {
        "cluster": {"nodes": 3, "heartbeat": "250ms", "node": node},
        "blocks": {"size": "250kB", "replication": 2},
        "workload": {"jobs": jobs},
        "policies": ["fifo"],
    }
    path.write_text(yaml.safe_dump(values))
    (folder / "bad.py").write_text(CODE)
    (folder / "wrong.py").write_text(WRONG_CODE)
    return path


def run(folder: Path, machines: str, jobs: list[dict[str, Any]]) -> Command:
    if machines == "docker":
        engine_or_skip()
    return start_run(folder, scenario(folder, jobs), "--machines", machines)[0]


@pytest.mark.parametrize("machines", ["process", "docker"])
def test_right_outputs_and_a_line_for_each_failure(tmp_path: Path, machines: str) -> None:
    bad = [
        {"app": "streaming", "name": name, "input": TEXT | {"size": "1kB"}, **job}
        for name, (job, _) in BAD.items()
    ]
    command = run(tmp_path, machines, [*GOOD, *bad, WRONG])
    assert command.wait() == 1, command.text()
    assert command.left_behind() == []
    if machines == "docker":
        assert left_of(command.mark()) == []
    found = outputs(tmp_path / "out")
    text = b"".join(generate("text", 600_000, 5)).decode()
    assert sum((pairs(found[name]) for name in found if name.startswith("job_0001")), Counter()) == wanted(
        text
    )
    longest = {line[0]: len(line) for line in sorted(text.splitlines(), key=len)}
    assert {
        key: n for name in found if name.startswith("job_0002") for key, n in pairs(found[name]).items()
    } == longest
    jobs = read_tables(tmp_path / "out")["jobs"].set_index("name")["state"].to_dict()
    assert {name for name, state in jobs.items() if state == "succeeded"} == {
        "WordPairs",
        "streaming",
        "Wrong",
    }
    lines = sum(1 for _ in b"".join(generate("text", 10_000, 5)).splitlines())
    last = f"job_{len(jobs):04d}"
    # A check runs in a container of its own, or on the host as nobody; neither has a network but its loopback.
    user = 1000 if machines == "docker" else os.getuid() or 65534
    assert f"{last} Wrong: wrong output: {lines} of {lines} lines, user {user}, 1 interface" in command.text()
    attempts = read_tables(tmp_path / "out")["attempts"]
    for number, (_, line) in enumerate(BAD.values(), start=3):
        mine = attempts[(attempts["job"] == f"job_{number:04d}") & (attempts["state"] == "failed")]
        assert len(mine) == 4 and mine["reason"].str.contains(line, regex=False).all(), mine[
            "reason"
        ].tolist()
        assert line in command.text()
    assert not (attempts["reason"].str.len() > 400).any()
    left = subprocess.run(["pgrep", "-f", "^sleep 100[01]$"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def pairs(part: bytes) -> Counter[str]:
    """Return the counts in an output part with lines `key<TAB>count`."""
    return Counter({key: int(n) for key, n in (line.split("\t") for line in part.decode().splitlines())})


def wanted(text: str) -> Counter[str]:
    """Return the expected counts of pairs of adjacent words that occur at least twice."""
    counts = Counter(f"{a} {b}" for line in text.splitlines() for a, b in pairwise(line.split()))
    return Counter({pair: n for pair, n in counts.items() if n >= 2})
