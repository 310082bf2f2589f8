"""A live run while another process uses the host's CPU: meanwhile emulated seconds last longer.

Beside other live tests the stretch would not fall, and the runs would last for minutes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest
import yaml

from schedbed.deploy.live.adaptive.others_use import OthersUse
from schedbed.deploy.live.adaptive.stretch_rule import HOLD_S, IGNORED, STEPS
from schedbed.scheduler.history import read_tables
from schedbed.tasks.stretch_file import StretchFile
from tests.harness.command import DEADLINE_S, Command, eventually, start_run
from tests.harness.hogs import hogs

pytestmark = pytest.mark.live

HOST_CORES = psutil.cpu_count() or 1
DECLARED = 0.5  # of the host's cores
HEARTBEAT_S = 0.5


def scenario(folder: Path) -> Path:
    node = {"cores": 2, "core_speed": DECLARED * HOST_CORES / 4, "map_slots": 2, "reduce_slots": 1}
    burn = {"app": "synthetic", "maps": 20, "map": {"cpu": "4s", "write": "1MiB"}, "reduces": 1}
    path = folder / "adaptive.yaml"
    document = {
        "name": "adaptive",
        "stretch": "adaptive",
        "cluster": {"nodes": 2, "node": node, "heartbeat": f"{HEARTBEAT_S}s"},
        "blocks": {"replication": 1},
        "workload": {"jobs": [burn]},
        "policies": ["fifo"],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def stretch_file(command: Command) -> StretchFile | None:
    """Return the stretch file of the running run once its maps run, or None before that."""
    for folder in command.scratch():
        for path in folder.glob("run0/nodes/.stretch"):
            if any(folder.glob("run0/nodes/*/attempts/*")):
                return StretchFile(path)
    return None


def quiet_s(command: Command, changed: StretchFile) -> float:
    """Wait until the stretch falls or the run ends; return the longest period of little CPU use by others.

    The period is in seconds.
    """
    largest = changed.time.changes[-1][1]
    use = OthersUse(lambda: [command.process.pid], time.monotonic)
    use.read()
    longest_s, since_s = 0.0, time.monotonic()
    while command.process.poll() is None and changed.time.changes[-1][1] >= largest:
        time.sleep(0.5)
        if use.read() > IGNORED * HOST_CORES / 2:
            since_s = time.monotonic()
        longest_s = max(longest_s, time.monotonic() - since_s)
    return longest_s


def test_the_stretch_rises_while_others_take_the_cpu_and_falls_after(tmp_path: Path) -> None:
    command, out = start_run(tmp_path, scenario(tmp_path))
    changed = eventually(lambda: stretch_file(command), "no attempt has begun", DEADLINE_S)
    first = changed.time.changes[0][1]
    with hogs(max(1, HOST_CORES * 3 // 4)):
        eventually(lambda: changed.time.changes[-1][1] > first, "the stretch did not rise")
    longest_quiet_s = quiet_s(command, changed)
    last = changed.time.changes[-1][1]
    assert command.wait() == 0, command.text()

    [run] = json.loads((out / "run.json").read_text())["runs"]
    told = run["stretches"]
    steps = [round(stretch / first, 6) for _, stretch, _ in told["changes"]]
    stretches = [stretch for _, stretch, _ in told["changes"]]
    assert told["largest"] == max(stretches) > first
    assert first < told["mean"] and min(stretches) <= told["mean"] <= told["largest"]
    assert told["mean"] < told["largest"] or len(set(stretches)) == 1
    assert steps[0] >= 1.0 and set(steps) <= set(STEPS)
    # On a host where others go on, the stretch need not fall before the run's end.
    assert last < told["largest"] or longest_quiet_s < HOLD_S + 2.0
    times = [t for t, _, _ in told["changes"]]
    assert times[0] == 0 and times == sorted(times) and times[-1] <= run["duration_s"]
    assert "more while others took its CPU" in command.text()
    assert json.loads((out / "summary.json").read_text())["changed_stretch"]["largest"] == told["largest"]

    # In emulated time the nodes had the rates that are declared, and beat as often as is declared.
    tables = read_tables(out)
    maps = tables["attempts"].query("kind == 'map'")
    used = maps["cpu_s"] / (maps["end"] - maps["start"]) / (DECLARED * HOST_CORES / 4)
    assert used.max() <= 1.15
    gaps = tables["heartbeats"].query("node == 'n2'")["t"].diff().dropna()
    assert (gaps > -1e-9).all() and gaps.quantile(0.9) >= 0.9 * HEARTBEAT_S
    assert command.left_behind() == []


def test_without_limits_the_stretch_stays_as_it_is_and_the_run_says_so(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    command, out = start_run(tmp_path, path, "--set", "cluster.limits=off", "--scale", "0.05")
    assert command.wait() == 0, command.text()
    assert "limits: off" in command.text()
    [run] = json.loads((out / "run.json").read_text())["runs"]
    assert run["stretches"] == {}
