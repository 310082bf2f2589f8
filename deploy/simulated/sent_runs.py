"""A simulated run on another host: its inputs, and its end with its part files, as bytes.

Inputs are JSON, so that no stranger's data is unpickled. Results that are computed from measurements on the
command's host, such as costs of applications, are part of the inputs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedbed.deploy.recorded_form import recorded_form
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.one_run import OneRun, SimulationEnd
from schedbed.deploy.simulated.sent_policies import contents_of, file_of
from schedbed.deploy.workspace import base_folder, owned
from schedbed.scheduler.history import COLUMNS, PARTS
from schedbed.scheduler.profiles import frozen_store, named_store
from schedbed.scheduler.registry.registry import reads_store

if TYPE_CHECKING:
    from schedbed.deploy.simulated.shared_inputs import SharedInputs

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


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder for simulated runs, and remove it after the `with` block."""
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
    with temporary_folder() as folder:
        copy = frozen_store(scenario.profiles.store, folder / STORE)
        return None if copy == "none" else named_store(copy).read_bytes().decode("latin-1")
