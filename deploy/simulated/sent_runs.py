"""A simulated run on another host: its inputs and its part files as bytes, and the program that simulates it.

Inputs are JSON, so that no stranger's data is unpickled. Results that are computed from measurements on the
command's host, such as costs of applications, are part of the inputs.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.options import RunOptions
from schedbed.deploy.recorded_form import recorded_form
from schedbed.deploy.results.runfile import RunFile
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.host_process import serve
from schedbed.deploy.simulated.one_run import OneRun, SimulationEnd
from schedbed.deploy.simulated.recorded_costs import RecordedCosts
from schedbed.deploy.simulated.sent_policies import contents_of, file_of, with_file, write_contents
from schedbed.deploy.simulated.simulated_runs import SharedInputs, SimRuns
from schedbed.deploy.simulated.task_costs import costs_of, laws_from_json
from schedbed.deploy.workspace import base_folder, owned
from schedbed.scheduler.history import COLUMNS, PARTS
from schedbed.scheduler.profiles import frozen_store, named_store
from schedbed.scheduler.registry.registry import reads_store
from schedbed.tasks.specs import TaskKind

if TYPE_CHECKING:
    from schedbed.deploy.display.progress import RunProgress

STORE = "profiles.sqlite"


def packed_inputs(inputs: SharedInputs) -> bytes:
    """Return the inputs that all runs of a command share as bytes, for `HostRuns` on another host.

    They include the users' policy files, and the profile store if a policy reads it.
    """
    scenario = inputs.scenario
    _, text = recorded_form(replace(scenario, given={}))
    rest = {
        "costs": inputs.costs.to_json(),
        "latencies": asdict(inputs.latencies),
        "cpu_factors": [[*key, factors] for key, factors in inputs.cpu_factors.items()],
        "as_live": inputs.as_live,
        "files": {spec: contents_of(path) for spec, path in _files_of(scenario).items()},
        "store": _store_of(scenario),
    }
    return f'{{"scenario": {text}, "rest": {json.dumps(rest)}}}'.encode()


def packed_end(run: OneRun, folder: Path, printed: str) -> bytes:
    """Return the end of a run, what its policy printed, and the part files in the run's folder, as bytes."""
    parts = sorted((folder / PARTS).glob("*/*.parquet"))
    head = {
        "ended": asdict(run.ended),
        "printed": printed,
        "parts": [[part.parent.name, part.name, part.stat().st_size] for part in parts],
    }
    return b"\n".join([json.dumps(head).encode(), b"".join(part.read_bytes() for part in parts)])


def take_end(run: OneRun, packed: bytes) -> str:
    """Write the part files of `packed_end` into the folder of `run`, set how it ended, and return the text
    that its policy printed.
    """
    start = packed.index(b"\n")
    head = json.loads(packed[:start])
    data = memoryview(packed)[start + 1 :]
    for table, name, size in head["parts"]:
        if table not in COLUMNS or name != Path(name).name:
            raise ValueError(f"{table}/{name} is no part file")
        folder = run.place[0] / PARTS / table
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.tmp").write_bytes(data[:size])
        (folder / f"{name}.tmp").replace(folder / name)
        data = data[size:]
    run.ended = SimulationEnd(**head["ended"])
    return head["printed"]


class _Nothing:
    """A display of runs that shows nothing."""

    def begin(self, label: str) -> RunProgress:
        """Return this object as the display of a run."""
        return self

    def show(self, now_s: float, tasks: int) -> None:
        """Ignore the progress of a run."""

    def end(self, now_s: float, tasks: int) -> None:
        """Ignore the end of a run."""


class HostRuns:
    """The runs of a command on another host, made from `packed_inputs`.

    Policy files and the profile store are written into `folder`.
    """

    def __init__(self, shared: bytes, folder: Path) -> None:
        raw = json.loads(shared)
        self._scenario = _scenario(raw, folder)
        self._runs = _runs(raw["rest"], self._scenario)
        self._files = {choice["spec"]: file_of(choice["given"]) for choice in raw["scenario"]["policies"]}

    def simulate(self, spec: str, repeat: int, at_once: int) -> bytes:
        """Simulate the run of a policy, given by its SPEC, in a repeat, and return `packed_end` of the run.

        `at_once` is the number of runs that are simulated at a time on all hosts. In the run's note, the path
        of the policy's file on this host is replaced by its original path.
        """
        [choice] = [each for each in self._scenario.policies if each.spec == spec]
        record = RunFile(scenario={}, policies=[spec], repeats=1, seed=self._scenario.seed, machines="sim")
        with _folder() as folder, redirect_stdout(io.StringIO()) as printed:
            run = OneRun(choice=choice, repeat=repeat, label=spec, place=(folder, record, _Nothing()))
            self._runs.run_one(run, at_once)
            if self._files[spec] is not None:
                run.ended.note = run.ended.note.replace(str(file_of(choice.given)), str(self._files[spec]))
            return packed_end(run, folder, printed.getvalue())


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=owned("sim-"), dir=base_folder()) as made:
        yield Path(made)


def _files_of(scenario: ResolvedScenario) -> dict[str, Path]:
    paths = {choice.spec: file_of(choice.given) for choice in scenario.policies}
    return {spec: path for spec, path in paths.items() if path is not None}


def _store_of(scenario: ResolvedScenario) -> str | None:
    """Return the profile store of the scenario as text with one character for each byte.

    Return None if no policy reads the store or if there is none.
    """
    if not any(reads_store(choice.given) for choice in scenario.policies):
        return None
    with _folder() as folder:
        copy = frozen_store(scenario.profiles.store, folder / STORE)
        return None if copy == "none" else named_store(copy).read_bytes().decode("latin-1")


def _scenario(raw: Mapping[str, Any], folder: Path) -> ResolvedScenario:
    """Return the scenario from the value of `packed_inputs`, and write its policy files and profile store
    into `folder`.
    """
    scenario, rest = ResolvedScenario.from_json(raw["scenario"]), raw["rest"]
    choices: list[PolicyChoice] = []
    for number, choice in enumerate(scenario.policies):
        contents, file = rest["files"].get(choice.spec), file_of(choice.given)
        if contents is not None and file is not None:
            path = folder / "policies" / str(number) / file.name
            write_contents(contents, path.parent)
            choice = replace(choice, given=with_file(choice.given, path))
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

    with _folder() as folder:
        runs = HostRuns(next(requests), folder)
        yield b""
        for request in requests:
            yield runs.simulate(*json.loads(request))


if __name__ == "__main__":
    serve(answers)
