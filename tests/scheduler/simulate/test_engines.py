"""The engines behind one door: equal tables with and without the compiled one, and without numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedbed.scheduler.engines import OBJECTS, Chosen, Effort, fast_engine
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.simulate.simulation import Simulation
from tests.harness.simulation import Tape, job, setup, simulate

SCENARIO = """
policies: [fifo, "order=fair,locality=delay"]
cluster: {nodes: 6, racks: 2}
workload:
  jobs:
    - {name: a, app: synthetic, reduces: 3, map: {cpu: 20s}, reduce: {cpu: 5s}, input: {generate: text, size: 2GB}}
    - {name: b, app: synthetic, maps: 12, map: {cpu: 7s}, submit: 9s}
"""
WITHOUT_NUMBA = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError("No module named " + name, name=name)
sys.meta_path.insert(0, Blocker())
from schedbed.__main__ import main
from schedbed.scheduler.simulate.compiled.ahead import compile_ahead
from schedbed.scheduler.simulate import storage
compile_ahead.COMPILED_TASKS, storage.COMPILED_BLOCKS = 1, 1
sys.argv[1:] = {arguments!r}
try:
    main()
finally:
    assert not {{"numba", "llvmlite"}} & set(sys.modules)
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_without_numba_the_objects_write_the_same_tables(tmp_path: Path, jobs: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    errors: list[str] = []
    for name, more in (("objects", ["--set", "simulate.engine=objects"]), ("auto", [])):
        arguments = ["run", "s.yaml", "--machines", "sim", "--no-report", "--no-live", "--jobs", jobs]
        script = WITHOUT_NUMBA.format(arguments=[*arguments, "--out", name, *more])
        told = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={**os.environ, "SCHEDBED_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        errors.append(told.stderr)
    tables = sorted(path.name for path in (tmp_path / "auto").glob("*.parquet"))
    assert {"attempts.parquet", "decisions.parquet", "jobs.parquet"} <= set(tables)
    for table in tables:
        one, other = ((tmp_path / name / table).read_bytes() for name in ("objects", "auto"))
        assert one == other, table
    assert "schedbed[fast]" not in errors[0]
    assert errors[1].count("pip install 'schedbed[fast]'") == 1


def test_an_engine_that_refuses_leaves_the_run_to_the_objects() -> None:
    planned = setup([job("job_0001", [3.0, 5.0, 2.0], reduces=[4.0])], 4)

    class Refuses(type(OBJECTS)):
        def run(self, simulation: Simulation, on_progress: object = None) -> str | None:
            return "not today"

    tape, known = Tape(), simulate(planned)
    Chosen((Refuses(),)).run(Simulation(planned, tape))
    assert tape.text() == known.text() and tape.rows["job"]


def test_the_compiled_loop_is_registered_and_says_what_it_cannot_run() -> None:
    fast = fast_engine()
    planned = setup([job("job_0001", [1.0])], 1)
    assert fast.name == "compiled" and fast.why_absent() is None
    assert fast.why_not(planned, build_policy("fifo")) is None
    why = fast.why_not(planned, build_policy("pd:remaining=progress"))
    assert why == "the policy may read the progress of attempts"
    assert fast.effort(build_policy("delay"), contention=True) is Effort.MEDIUM
    assert OBJECTS.why_not(planned, build_policy("ras")) is None and OBJECTS.least_tasks == 0
