"""A simulated run on another host: its inputs, and its end with its part files, as bytes.

Inputs are JSON, so that no stranger's data is unpickled, and contain results of measurements on the command's
host, such as costs.
"""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedbed.deploy.recorded_form import recorded_form
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.one_run import OneRun, SimulationEnd
from schedbed.deploy.workspace import base_folder, owned
from schedbed.scheduler.history import COLUMNS, PARTS
from schedbed.scheduler.profiles import frozen_store, named_store
from schedbed.scheduler.registry.policy_spec import is_policy_file, parse_spec
from schedbed.scheduler.registry.registry import AXES, reads_store

if TYPE_CHECKING:
    from schedbed.deploy.simulated.recorded_costs import SharedInputs

STORE = "profiles.sqlite"


def packed_inputs(inputs: SharedInputs) -> bytes:
    """Return the inputs shared by a command's runs for `HostRuns`, with policy files and a profile store if read."""
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
    """Write part files of `packed_end` into the run's folder, set its end, and return what its policy printed."""
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
    """Yield a temporary folder for simulated runs."""
    with tempfile.TemporaryDirectory(prefix=owned("sim-"), dir=base_folder()) as made:
        yield Path(made)


def _files_of(scenario: ResolvedScenario) -> dict[str, Path]:
    paths = {choice.spec: file_of(choice.given) for choice in scenario.policies}
    return {spec: path for spec, path in paths.items() if path is not None}


def _store_of(scenario: ResolvedScenario) -> str | None:
    """Return the profile store, a character for each byte, or None if there is none or no policy reads it."""
    if not any(reads_store(choice.given) for choice in scenario.policies):
        return None
    with temporary_folder() as folder:
        copy = frozen_store(scenario.profiles.store, folder / STORE)
        return None if copy == "none" else named_store(copy).read_bytes().decode("latin-1")


# Users' policy files that are sent to another host, with the files beside them that they import.

Contents = dict[str, str]
"""The content of files by their path below the policy's folder. Each character stands for one byte."""


def file_of(given: Any) -> Path | None:
    """Return a policy's file, or None for a shipped one."""
    name = parse_spec(given, tuple(AXES)).name
    return Path(name.rpartition(":")[0] if ".py:" in name else name) if is_policy_file(name) else None


def contents_of(path: Path) -> Contents:
    """Return a policy file and the files beside it that it imports, directly or not. Raises OSError."""
    found: Contents = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = str(file.relative_to(path.parent))
        if name not in found:
            data = file.read_bytes()
            found[name] = data.decode("latin-1")
            waiting += [beside for top in _imports(data) for beside in _files(path.parent, top)]
    return found


def moved_to(folder: Path, given: Any, contents: Contents) -> Any:
    """Write a policy file and its imports into a new folder. Return `given` with the path there."""
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    file = file_of(given)
    assert file is not None
    before, after = str(file), folder / file.name
    if isinstance(given, str):
        return f"{after}{given.strip().removeprefix(before)}"
    return {f"{after}{name.removeprefix(before)}": parameters for name, parameters in given.items()}


def _imports(source: bytes) -> Iterator[str]:
    """Yield the first parts of the names of modules that the source code may import."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # The import of the policy reports the error.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _files(folder: Path, top: str) -> list[Path]:
    """Return the files of a module or package in the folder."""
    if (folder / f"{top}.py").is_file():
        return [folder / f"{top}.py"]
    return sorted((folder / top).rglob("*.py")) if (folder / top / "__init__.py").is_file() else []
