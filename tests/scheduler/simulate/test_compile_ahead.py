"""Tests when the simulator's fast loop is compiled: before runs, in the background after them, or not at all."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.engine_choice import choose_engine
from schedbed.scheduler.simulate.compiled import code_cache, registration
from schedbed.scheduler.simulate.compiled.ahead import compile_ahead
from schedbed.scheduler.simulate.compiled.ahead.compile_ahead import COMPILED_TASKS, CONTENDED_TASKS_PER_S

MINE = Path(__file__).parents[3] / "examples" / "policies" / "earliest_deadline.py"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Use an empty cache, and return a list to which the start of each compilation adds how it was started."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    monkeypatch.setattr(code_cache, "_mark", lambda: tmp_path / "complete")
    for module in (code_cache, compile_ahead):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compile_ahead, "memory_left_bytes", lambda: 64 << 30)
    ways: list[str] = []
    monkeypatch.setattr(compile_ahead.subprocess, "run", lambda *_, **__: ways.append("before"))
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", lambda *_, **__: ways.append("after") or Process())
    monkeypatch.setattr(compile_ahead.os, "setpriority", lambda *_: None)
    return ways


class Process:
    """A process that does nothing."""

    pid = 0


def scenario(maps: int, policies: tuple[str, ...] = ("fair",), **given: Any) -> ResolvedScenario:
    job = {"name": "a", "app": "synthetic", "maps": maps, "map": {"cpu": "20s"}}
    return resolve({"workload": {"jobs": [job]}, "policies": list(policies), **given})


def test_large_runs_that_end_before_the_loop_is_compiled_do_without_it(
    started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    choice = choose_engine(scenario(COMPILED_TASKS), 1)
    assert not choice.engines and not started
    choice.end()
    assert started == ["after"]
    assert "compiled in the background, once" in capsys.readouterr().err


def test_the_loop_is_compiled_first_where_runs_would_take_longer_without_it(
    started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    choice = choose_engine(scenario(100 * CONTENDED_TASKS_PER_S), 1)
    assert choice.engines and started == ["before"]
    assert "compiling" in capsys.readouterr().err
    choice.end()
    assert started == ["before"]


def test_parallel_runs_and_runs_without_contention_end_sooner(started: list[str]) -> None:
    assert not choose_engine(scenario(100 * CONTENDED_TASKS_PER_S), 2).engines
    assert not choose_engine(scenario(100 * CONTENDED_TASKS_PER_S, simulate={"contention": False}), 1).engines
    assert not started


def test_without_numba_one_line_says_what_to_install(
    started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registration, "_is_installed", lambda: False)
    registration._tell_absent.cache_clear()
    code_cache.note_cached()
    for maps in (COMPILED_TASKS - 1, COMPILED_TASKS, 100 * CONTENDED_TASKS_PER_S):
        choice = choose_engine(scenario(maps), 1)
        choice.end()
        assert not choice.engines and not started
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and "pip install 'schedbed[fast]'" in told[0]


@pytest.mark.parametrize("policy", ["aria", f"{MINE}:EarliestDeadline"])
def test_a_policy_in_python_uses_the_loop_too(started: list[str], policy: str) -> None:
    choice = choose_engine(scenario(COMPILED_TASKS, (policy,)), 1)
    choice.end()
    assert started == ["after"]


@pytest.mark.parametrize(
    ("maps", "given"),
    [
        (COMPILED_TASKS - 1, {}),
        (COMPILED_TASKS, {"simulate": {"engine": "objects"}}),
        (COMPILED_TASKS, {"policies": ["pd:remaining=progress"]}),
        (COMPILED_TASKS, {"policies": ["ras"]}),
        (COMPILED_TASKS, {"framework": "hadoop1"}),
        (COMPILED_TASKS, {"faults": [{"at": "9s", "slow": "n1", "cpu": 0.2}]}),
        (COMPILED_TASKS, {"speculation": "late"}),
    ],
    ids=["small", "objects", "not asked", "fills nodes", "framework", "faults", "speculation"],
)
def test_runs_that_never_use_the_loop_compile_nothing(
    started: list[str], maps: int, given: dict[str, Any]
) -> None:
    choice = choose_engine(scenario(maps, **given), 1)
    choice.end()
    assert not choice.engines and not started


def test_a_compiled_loop_is_used(started: list[str]) -> None:
    code_cache.note_cached()
    choice = choose_engine(scenario(COMPILED_TASKS), 1)
    choice.end()
    assert choice.engines and not started


def test_nothing_is_started_beside_another_compilation(started: list[str], tmp_path: Path) -> None:
    choice = choose_engine(scenario(COMPILED_TASKS), 1)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        choice.end()
    assert not started
    choice.end()
    assert started == ["after"]


def test_nothing_is_started_where_memory_is_short(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_ahead, "memory_left_bytes", lambda: 3 << 30)
    choose_engine(scenario(COMPILED_TASKS), 1).end()
    assert not started


def test_compiling_simulates_one_task_and_marks_the_cache(tmp_path: Path) -> None:
    """The loop runs as plain Python, as compiling takes up to a minute."""
    script = f"""
import os, pathlib, types
from schedbed.scheduler.simulate.compiled import code_cache, run_compiled
from schedbed.scheduler.simulate.compiled.ahead import compile_once
del os.environ["NUMBA_DISABLE_JIT"]
mark = pathlib.Path({str(tmp_path / "complete")!r})
code_cache._mark, code_cache.cache_folder = lambda: mark, lambda: mark.parent
run_compiled.CONFIG = types.SimpleNamespace(DISABLE_JIT=False)
loop, ran = run_compiled.run_loop, []
run_compiled.run_loop = lambda *given: ran.append(1) or loop(*given)
compile_once.compile_loop()
first = len(ran)
compile_once.compile_loop()
print(first > 0, len(ran) == first, mark.exists())
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    told = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["True", "True", "True"], told.stderr
