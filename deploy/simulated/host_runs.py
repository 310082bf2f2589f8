"""The program that simulates runs on another host, one at a time, for a worker of Ray."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.options import RunOptions
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.host_process import serve
from schedbed.deploy.simulated.one_run import OneRun
from schedbed.deploy.simulated.recorded_costs import RecordedCosts
from schedbed.deploy.simulated.sent_runs import STORE, file_of, moved_to, packed_end, temporary_folder
from schedbed.deploy.simulated.simulated_runs import SimRuns
from schedbed.deploy.simulated.task_costs import costs_of, laws_from_json
from schedbed.tasks.specs import TaskKind

if TYPE_CHECKING:
    from schedbed.deploy.display.progress import RunProgress


class _Nothing:
    """A display of runs that shows nothing."""

    def begin(self, label: str) -> RunProgress:
        """Implement `Progress.begin`."""
        return self

    def show(self, now_s: float, tasks: int) -> None:
        """Ignore the progress of a run."""

    def end(self, now_s: float, tasks: int) -> None:
        """Ignore the end of a run."""


class HostRuns:
    """The runs of a command on another host, from `packed_inputs`, with files in `folder`."""

    def __init__(self, shared: bytes, folder: Path) -> None:
        raw = json.loads(shared)
        self._folder = folder
        self._scenario = _scenario(raw, folder)
        self._runs = _runs(raw["rest"], self._scenario)
        self._files = {choice["spec"]: file_of(choice["given"]) for choice in raw["scenario"]["policies"]}

    def simulate(self, spec: str, repeat: int, at_once: int) -> bytes:
        """Simulate a run and return its `packed_end`. `at_once` runs are simulated at a time on all hosts.

        In the run's note, a policy file's path here is replaced by its original path.
        """
        [choice] = [each for each in self._scenario.policies if each.spec == spec]
        record = RunFile(scenario={}, policies=[spec], repeats=1, seed=self._scenario.seed, machines="sim")
        with TemporaryDirectory(dir=self._folder) as made, redirect_stdout(io.StringIO()) as printed:
            folder = Path(made)
            run = OneRun(choice=choice, repeat=repeat, label=spec, place=(folder, record, _Nothing()))
            self._runs.run_one(run, at_once)
            if self._files[spec] is not None:
                run.ended.note = run.ended.note.replace(str(file_of(choice.given)), str(self._files[spec]))
            return packed_end(run, folder, printed.getvalue())


def _scenario(raw: Mapping[str, Any], folder: Path) -> ResolvedScenario:
    """Return the scenario in `packed_inputs`, and write its policy files and profile store into `folder`."""
    scenario, rest = ResolvedScenario.from_json(raw["scenario"]), raw["rest"]
    choices: list[PolicyChoice] = []
    for number, choice in enumerate(scenario.policies):
        if contents := rest["files"].get(choice.spec):
            moved = moved_to(folder / "policies" / str(number), choice.given, contents)
            choice = replace(choice, given=moved)
        choices.append(choice)
    store = "none"
    if rest["store"] is not None:
        store = str(folder / STORE)
        Path(store).write_bytes(rest["store"].encode("latin-1"))
    return replace(scenario, policies=tuple(choices), profiles=replace(scenario.profiles, store=store))


def _runs(rest: Mapping[str, Any], scenario: ResolvedScenario) -> SimRuns:
    """Return the runs of a scenario with the other inputs from the value of `packed_inputs`."""
    later_s = tuple(rest["latencies"]["launch_later_s"])
    costs = rest["costs"]
    return SimRuns(
        scenario,
        RunOptions(machines="sim"),
        costs_of(scenario, laws_from_json(costs)) if "laws" in costs else RecordedCosts.from_json(costs),
        Latencies(**{**rest["latencies"], "launch_later_s": later_s}),
        cpu_factors={(job, TaskKind(kind)): factors for job, kind, factors in rest["cpu_factors"]},
        as_live=rest["as_live"],
    )


def answers(requests: Iterator[bytes]) -> Generator[bytes]:
    """Yield `packed_end` of each requested run. Before this, yield an empty answer to `packed_inputs`."""
    import fastparquet  # noqa: F401  # once, here, instead of in each fork

    with temporary_folder() as folder:
        runs = HostRuns(next(requests), folder)
        yield b""
        for request in requests:
            yield runs.simulate(*json.loads(request))


if __name__ == "__main__":
    serve(answers)
