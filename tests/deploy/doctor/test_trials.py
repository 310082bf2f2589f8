"""Tests how `schedbed doctor` judges, prints and stores the trials of programs that try to exceed their
limits.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from schedbed.deploy.doctor import hostile_measure
from schedbed.deploy.doctor.measured_limits import LimitsFile, amounts, cooperating_rows, show_hostile
from schedbed.deploy.doctor.trials import (
    BREAKS,
    HOLDS,
    TRIALS,
    TRUSTING,
    UNLIMITED,
    UNTRIED,
    HostileTrial,
    LimitRow,
    TrialSeen,
    claims_any_code,
    declared_of,
    judge,
)
from schedbed.deploy.doctor.verdicts import Achieved
from schedbed.deploy.failures import RunFailed
from schedbed.tasks.errors import BadInput
from schedbed.tasks.hostile.hostile_runner import PROGRAMS
from tests.harness.agents import node_spec

NODE = node_spec(cores=2, core_speed=0.1, memory_bytes=2**29, disk_bps=40e6, network_bps=12.5e6)
OVER = "over its memory limit of 192 MiB"
BOMB = 2047


def trial(program: str) -> HostileTrial:
    return next(trial for trial in TRIALS if trial.program == program)


def row(
    program: str,
    achieved: float | None,
    by: str = "cgroup v1",
    *,
    state: str = "failed",
    reason: str = "",
    lives: bool = True,
    resolution: float = 0.0,
    pids_limit: int | None = None,
    left: int = 0,
) -> LimitRow:
    seen = TrialSeen(
        achieved=achieved,
        resolution=resolution,
        witness="control group",
        state=state,
        reason=reason,
        node_lives=lives,
        pids_limit=pids_limit,
        left_behind=left,
    )
    return judge(trial(program), NODE, by, seen, BOMB)


@pytest.mark.parametrize(
    ("program", "achieved", "verdict"),
    [
        ("timer_off", 0.1029, HOLDS),
        ("timer_off", 0.1031, BREAKS),
        ("timer_off", 0.06, HOLDS),  # on a busy host it gets less, which is no escape
        ("timer_off", 0.04, UNTRIED),
        ("timer_off", None, UNTRIED),
        ("buffered", 41.9e6, HOLDS),
        ("buffered", 42.1e6, BREAKS),
        ("receive", 13.1e6, HOLDS),
        ("receive", 13.2e6, BREAKS),
    ],
)
def test_a_rate_holds_within_its_tolerance(program: str, achieved: float | None, verdict: str) -> None:
    found = row(program, achieved)
    assert found.verdict == verdict
    assert found.fails is (verdict != HOLDS)


def test_too_much_is_a_breach_only_as_far_as_the_time_could_tell() -> None:
    assert row("timer_off", 0.1055, resolution=0.002).verdict == BREAKS
    close = row("timer_off", 0.1055, resolution=0.003)
    assert (close.verdict, close.fails, "3.0%" in close.note) == (UNTRIED, True, True)
    assert row("timer_off", 0.1029, resolution=0.02).verdict == HOLDS
    trusted = row("timer_off", 0.1055, "software", resolution=0.003)
    assert (trusted.verdict, trusted.note) == (TRUSTING, "")


def test_a_limit_that_trusts_is_shown_as_such_and_fails_nothing() -> None:
    for by in ("software", "software (cooperating code only)", "software in docker cgroup v1"):
        found = row("shells", 1.7, by)
        assert (found.verdict, found.achieved, found.fails) == (TRUSTING, 1.7, False)
    assert row("shells", 1.7, "off").verdict == UNLIMITED
    assert not claims_any_code("")
    assert all(map(claims_any_code, ("cgroup v1", "docker cgroup v2", "tc", "loop device, cgroup v1")))


def test_memory_must_be_stopped_and_the_reason_given() -> None:
    limit = declared_of(trial("shared"), NODE)
    assert row("shared", limit, reason=OVER).verdict == HOLDS
    assert row("shared", 400 * 2**20, reason=OVER).verdict == BREAKS
    stopped = row("children", limit, state="succeeded")
    assert (stopped.verdict, stopped.fails) == (BREAKS, True)
    assert stopped.note == "stopped, but the attempt succeeded: without a reason"


def test_a_dead_node_is_no_limit_that_held() -> None:
    assert row("shared", 2e8, reason=OVER, lives=False).note == "the node died"
    assert row("shared", 2e8, reason=OVER, lives=False).fails


def test_processes_are_bounded_by_what_the_kernel_says_above_them() -> None:
    bounded = row("fork_bomb", 500.0, "", pids_limit=512)
    assert (bounded.verdict, bounded.declared, bounded.by) == (HOLDS, 512.0, "pids of its control group")
    assert row("fork_bomb", 513.0, "", pids_limit=512).verdict == BREAKS
    assert row("fork_bomb", 2047.0, "").verdict == UNLIMITED
    assert row("fork_bomb", 2047.0, "", pids_limit=30_000).verdict == UNLIMITED  # the host's own
    assert row("fork_bomb", 1.0, "", pids_limit=512).verdict == UNTRIED


def test_what_outlived_the_attempt_is_told() -> None:
    assert row("unwaited_children", 0.1, left=4).note == "4 of its processes outlived it"


def test_a_node_is_tried_with_all_its_slots_as_well() -> None:
    assert {declared_of(each, NODE) for each in TRIALS if each.resource == "cpu"} == {0.1, 0.2}


def test_every_trial_has_its_program_and_every_program_its_trial() -> None:
    assert {trial.program for trial in TRIALS} == set(PROGRAMS)
    assert {trial.helper for trial in TRIALS if trial.helper} <= set(PROGRAMS)


def test_cooperating_code_is_shown_by_its_worst_node() -> None:
    nodes = [NODE, node_spec("n2", core_speed=0.1, cores=2)]
    found = [
        Achieved("n1", "cpu", 1.01, "cgroup v1", "two a core", 0.03),
        Achieved("n2", "cpu", 0.9, "cgroup v1", "two a core", 0.03),
        Achieved("n1", "cpu", 0.8, "cgroup v1", "tasks of a second", None),
    ]
    worst, informs = cooperating_rows(found, nodes)
    assert (informs.verdict, informs.fails) == ("not judged", False)
    assert (worst.node, worst.declared, worst.hostile) == ("n2", 0.2, False)
    assert worst.achieved == pytest.approx(0.18)
    assert worst.verdict == BREAKS


def test_the_table_names_what_does_not_hold_and_the_file_gives_the_rows_back(tmp_path: Path) -> None:
    rows = [row("timer_off", 0.1), row("shells", 0.5), row("buffered", 2e8, "software")]
    console = Console(record=True, width=120)
    with pytest.raises(RunFailed, match=r"1 of 3 hostile attempts .*: cpu: two shells"):
        show_hostile(rows, console)
    text = console.export_text()
    assert "cpu, by cgroup v1" in text and "0.500 cores" in text and TRUSTING in text
    show_hostile([rows[0], rows[2]], console)
    assert amounts(row("fork_bomb", None)) == ("nothing", "not seen")
    kept = LimitsFile.measured_now("quickstart", "docker", rows, hostile=True)
    kept.save(tmp_path / "limits.json")
    assert LimitsFile.load(tmp_path / "limits.json") == kept
    assert "--measure --hostile --machines docker" in kept.command
    measured = LimitsFile.measured_now("quickstart", "docker", rows, hostile=False)
    assert "--hostile" not in measured.command
    assert len(json.loads((tmp_path / "limits.json").read_text())["rows"]) == 3
    with pytest.raises(BadInput, match=r"--save .*expected a file"):
        kept.save(tmp_path / "no" / "limits.json")


def test_an_installation_without_the_hostile_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile_measure.check_programs()
    monkeypatch.setattr(hostile_measure, "PROGRAMS_PACKAGE", "schedbed.tasks.not_in_the_wheel")
    with pytest.raises(BadInput, match=r"^--hostile: this installation lacks the hostile programs"):
        hostile_measure.check_programs()
