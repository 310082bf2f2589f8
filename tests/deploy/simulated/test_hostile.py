"""Tests some hostile policies of `tests.harness.hostile_policies`: each fails with one line or changes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from schedbed.deploy import worker_fork
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.scheduler.guard.time_bound import TIME_BOUND
from schedbed.scheduler.history import read_table
from schedbed.scheduler.part_merge import merge
from schedbed.tasks.errors import BadInput
from tests.harness.hostile_policies import Attack, attacks

NAMES_LINE = re.compile(r"mine\.py, line \d+")
SCENARIO = """
name: hostile
seed: 1
cluster: {nodes: 2, racks: 1, heartbeat: 50ms, node: {cores: 2, core_speed: 0.2, memory: 512MiB, disk: 40MB/s,
  network: 100Mbit/s, map_slots: 2, reduce_slots: 1}}
blocks: {size: 1MiB, replication: 1}
profiles: {store: none}
speculation: none
workload:
  jobs:
    - {app: synthetic, maps: 6, map: {cpu: 300ms, read: 1MiB, write: 1MiB}, reduces: 1, reduce: {cpu: 100ms}}
    - {app: synthetic, maps: 3, map: {cpu: 200ms, write: 1MiB}, reduces: 0, submit: 500ms, user: bo}
"""
TABLES = ("jobs", "attempts", "heartbeats")

ALL = {attack.name: attack for attack in attacks()}
IN_RUN = [
    "os._exit(0)",
    "os.kill(os.getpid(), signal.SIGTERM)",
    "ctypes.string_at(0)",
    "os.closerange(3, 200)",
    "node._Proxy__raw.free_maps = 50",
    "view._Proxy__raw.jobs.clear()",
    "while True: print('x' * 1000)",
    "3 ** 10 ** 9",
    "patches Ledger.launch",
    "patches Simulation.run",
    "report gives the view",
]
AT_THE_DOOR = ["import ends the process", "__init__ ends the process", "limits are texts", "import exits"]
QUIET = "\n__import__('faulthandler').disable()\n"  # a crash that is wanted is not shown as one of pytest
HARMLESS = ["sys.modules.clear()", "os.chdir('/')", "os.environ.clear()", "sys.stdout.close()"]


def simulated(attack: Attack, folder: Path) -> tuple[str, dict[str, str]]:
    """Simulate a hostile policy.

    Return the error, empty if the simulation succeeded, and each table as CSV.
    """
    (folder / "mine.py").write_text(attack.text() + QUIET, encoding="utf-8")
    values = {**yaml.safe_load(SCENARIO), "policies": [f"{folder}/mine.py:Mine"]}
    scenario = resolve(values)
    record = RunFile(
        scenario={}, policies=[], repeats=1, seed=1, machines="sim", versions={}, host={}, wall_start=""
    )
    SimRuns(scenario, RunOptions(live=False)).run_all(folder, record)
    [run] = record.runs
    merge(folder)
    kept = {name: read_table(folder, name).drop(columns="policy").to_csv() for name in TABLES}
    return "" if run.state == "succeeded" else run.note, kept


@contextmanager
def short_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(TIME_BOUND, "limit_of", lambda _: 0.5)
        patched.setattr(worker_fork, "stuck_s", lambda _: 1.0)
        yield


@pytest.mark.parametrize("name", IN_RUN)
def test_a_policy_that_does_harm_ends_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with short_calls(monkeypatch):
        note, _ = simulated(ALL[name], tmp_path)
    assert NAMES_LINE.search(note) and "\n" not in note
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("name", AT_THE_DOOR)
def test_a_policy_that_does_harm_as_it_is_made_is_bad_input(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        simulated(ALL[name], tmp_path)
    assert NAMES_LINE.search(str(caught.value))


@pytest.mark.long  # seconds
def test_what_a_policy_does_to_its_own_process_changes_nothing(tmp_path: Path) -> None:
    ends: list[str] = []
    tables: list[dict[str, str]] = []
    for name, attack in {"calm": Attack(name="calm"), **{name: ALL[name] for name in HARMLESS}}.items():
        folder = tmp_path / str(len(ends))
        folder.mkdir()
        note, kept = simulated(attack, folder)
        ends.append(note)
        tables.append(kept)
        assert "succeeded" in kept["jobs"], name
    assert ends == [""] * len(ends)
    assert all(each == tables[0] for each in tables)


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    assert len(ALL) == len(list(attacks())) >= 60
