"""Applications of users in a scenario, checked without running them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.check import did_you_mean
from schedbed.deploy.scenario.inputs import JobInputs
from schedbed.deploy.scenario.jobs import resolve_params
from schedbed.deploy.scenario.models import JobModel
from schedbed.deploy.scenario.own_code import STREAMING, OwnApps
from schedbed.deploy.scenario.yaml_file import KeyPath
from schedbed.tasks.appkit.app import App
from schedbed.tasks.appkit.app_catalogue import APPS, KINDS
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.class_source import PROGRAM, ClassSource, read_class
from schedbed.tasks.own.imported_files import with_imported
from schedbed.tasks.own.own_app import COSTS, app_of_class, checked_costs, completed
from schedbed.tasks.own.program import COMMANDS, FILES, ProgramFile, files_to_json, is_app_file
from schedbed.tasks.own.watch import TIMEOUT, TIMEOUT_S

INPUTS = (*KINDS, "none")
"""The kinds of input that a class may ask for."""

Own = dict[str, Any]
"""The derived parameters of an application, such as the list of its files."""


def find_app(given: JobModel, path: KeyPath, inputs: JobInputs) -> tuple[App, dict[str, Any]] | None:
    """Implement `OwnApps.find`.

    The time limit of the user's code is multiplied by the scenario's factor `scale`.
    """
    try:
        app, own = (
            _of_class(given, path, inputs) if is_app_file(given.app) else _of_commands(given, path, inputs)
        )
    except _Wrong as wrong:
        inputs.complaints.add((*path, *wrong.key), str(wrong))
        return None
    scale = inputs.scenario.scale
    params = resolve_params(app, _given(given), scale, (*path, "params"), inputs.complaints)
    timeout_s = params.get(TIMEOUT, TIMEOUT_S)
    if not timeout_s > 0:
        inputs.complaints.add((*path, "params", TIMEOUT), f"{timeout_s} s is not above 0")
    return app, {**params, TIMEOUT: timeout_s * scale, **own}


OWN_APPS = OwnApps(find_app)


def read_app(spec: str, base: Path) -> tuple[ClassSource, Path]:
    """Read the declaration of the application class `path/to/app.py:NAME`; also return the path of its file.

    The file is searched in the folder `base`, then in the working folder. Raises BadInput with the error in
    one line.
    """
    name, _, class_name = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    if not class_name:
        raise BadInput(f"{spec!r}: expected path/to/app.py:NAME")
    path = Path(name).expanduser()
    real = next((folder / path for folder in (base, Path.cwd()) if (folder / path).is_file()), base / path)
    return read_class(real, class_name), real.resolve()


class _Wrong(Exception):
    """An error in the value of one key of a job. `find_app` catches it and adds it to the complaints."""

    def __init__(self, key: str | tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.key = (key,) if isinstance(key, str) else key


def _given(job: JobModel) -> dict[str, Any]:
    """Return one dictionary with the job's parameters and its streaming commands, such as `mapper`."""
    commands = {"mapper": job.mapper, "combiner": job.combiner, "reducer": job.reducer}
    return {role: text for role, text in commands.items() if text is not None} | job.params


def _of_class(given: JobModel, path: KeyPath, inputs: JobInputs) -> tuple[App, Own]:
    for role in COMMANDS:
        if role in given.model_fields_set:
            raise _Wrong(role, f"only streaming has a {role}; {given.app} is a class")
    folder = _folder(given, inputs)
    try:
        source, real = read_app(given.app, folder)
    except BadInput as error:
        raise _Wrong("app", str(error)) from None
    if source.input is not None and source.input not in INPUTS:
        raise _Wrong(
            "app", f"{real}: {source.name}.input is {source.input!r}, {did_you_mean(source.input, INPUTS)}"
        )
    own: Own = {PROGRAM: source.to_json()}
    costs = source.costs if given.costs is None else given.costs
    if costs is not None:
        own[COSTS] = _costs(costs, "app" if given.costs is None else "costs")
    beside = {str(file.relative_to(real.parent)): file for file in with_imported(real)}
    own[FILES] = _shipped(beside | _extra(given, folder), path, inputs)
    return completed(app_of_class(given.app, source), own), own


def _of_commands(given: JobModel, path: KeyPath, inputs: JobInputs) -> tuple[App, Own]:
    folder = _folder(given, inputs)
    commands = _given(given)
    files: dict[str, Path] = {}
    for role in COMMANDS:
        if role in given.model_fields_set and role in given.params:
            raise _Wrong(("params", role), f"{role} is given twice")
        if role in commands:
            key = role if role in given.model_fields_set else ("params", role)
            files |= _named_in(commands[role], key, folder)
    if commands.get("combiner") and not commands.get("reducer"):
        raise _Wrong("combiner", "there is no reducer that it could combine for")
    if given.reduces and not commands.get("reducer"):
        raise _Wrong("reduces", "streaming without a reducer has none: reducer: cat gives the sorted lines")
    own: Own = {FILES: _shipped(files | _extra(given, folder), path, inputs)}
    if given.costs is not None:
        own[COSTS] = _costs(given.costs, "costs")
    return completed(APPS[STREAMING], {**commands, **own}), own


def _folder(given: JobModel, inputs: JobInputs) -> Path:
    folder = (inputs.base / Path(given.folder or ".").expanduser()).resolve()
    if not folder.is_dir():
        raise _Wrong("folder", f"{given.folder!r} is no folder (looked for {folder})")
    return folder


def _costs(costs: Any, key: str) -> dict[str, float]:
    try:
        return checked_costs(costs)
    except ValueError as error:
        raise _Wrong(key, str(error).removeprefix("costs: ") if key == "costs" else str(error)) from None


def _named_in(command: Any, key: str | tuple[str | int, ...], folder: Path) -> dict[str, Path]:
    """Return the files in `folder` that a streaming command mentions or that its Python files import.

    The result is a dictionary from the name of a file in the command to the path of the file. Raises _Wrong,
    an error about the job's key `key`, if `command` is not a command.
    """
    if not isinstance(command, str) or not command.strip():
        raise _Wrong(key, f"{command!r} is no command")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _Wrong(key, f"{command!r} is no command: {str(error).lower()}") from None
    return {name: file for word in words for name, file in _files_of(word, folder)}


def _files_of(word: str, folder: Path) -> Iterator[tuple[str, Path]]:
    path = Path(word)
    if path.is_absolute() or ".." in path.parts or not _is_file(folder / path):
        return
    beside = (folder / path).parent
    for file in with_imported(folder / path):
        yield str(path.parent / file.relative_to(beside)), file


def _extra(given: JobModel, folder: Path) -> dict[str, Path]:
    """Return the files in the job's key `files`, as a dictionary from file name to path.

    An attempt finds each file under this name in its working folder.
    """
    found: dict[str, Path] = {}
    for index, name in enumerate(given.files):
        real = folder / Path(name).expanduser()
        if not _is_file(real):
            raise _Wrong(("files", index), f"{name!r} is no file that can be read (looked for {real})")
        found[real.name] = real
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # The name may be too long, for example.
        return False


def _shipped(files: dict[str, Path], path: KeyPath, inputs: JobInputs) -> list[dict[str, Any]]:
    """Register each file as an input of the scenario, and return a JSON list that describes the files.

    The list is the value of the application's parameter `files`. `path` is the job's place in the scenario
    file.
    """
    shipped: list[ProgramFile] = []
    for name, real in files.items():
        try:
            file = ProgramFile.of(name, real)
        except OSError as error:
            raise _Wrong("app", f"{real}: cannot be read: {error.strerror}") from None
        inputs.program(file, real, path)
        shipped.append(file)
    return files_to_json(shipped)
