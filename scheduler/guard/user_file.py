"""Loading of a user's policy, which is a class with a method `decide` in a Python file.

The SPEC of such a policy is `path/to/file.py:ClassName`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from schedbed.scheduler.guard.blame import PolicySource
from schedbed.scheduler.guard.guarded_calls import Guard
from schedbed.scheduler.guard.guarded_policy import guarded
from schedbed.scheduler.guard.read_only import restoring_builtins
from schedbed.scheduler.policy import Policy, PolicyFailed
from schedbed.scheduler.registry.declarations import FileLoader
from schedbed.scheduler.registry.parameters import hint
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.beside import load_with_files_beside
from schedbed.tasks.plain_file import is_plain_file
from schedbed.tasks.units import parse_duration


def load_policy_file(name: str, given: Mapping[str, Any], scale: float) -> Policy:
    """Import the file and class in `name`, and return an instance in a wrapper that checks its answers.

    `given` are the keyword arguments of the constructor. Texts such as `3`, `0.5` or `true` become numbers or
    booleans; durations such as `5s` become seconds multiplied by the scenario's `scale`. Raises BadInput if
    the import or the constructor fails.
    """
    path, _, class_name = name.rpartition(":") if ".py:" in name else (name, "", "")
    if not class_name:
        raise BadInput(f"policy {name!r}: expected path/to/file.py:ClassName")
    module = _load(name, Path(path))
    classes = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "decide")
    }
    made = classes.get(class_name)
    if made is None:
        raise BadInput(
            f"policy {name!r}: no class {class_name!r} with a decide method{hint(class_name, classes)}"
        )
    values = {key: _value(raw, scale) for key, raw in given.items()}
    try:
        return guarded(partial(made, **values), made, str(path))
    except PolicyFailed as error:
        raise BadInput(f"policy {name!r}: {class_name} refused its parameters: {error}") from error


LOADER = FileLoader(load_policy_file)


def _load(name: str, path: Path) -> ModuleType:
    if not is_plain_file(path):
        raise BadInput(f"policy {name!r}: there is no file {path}")
    guard = Guard(PolicySource(str(path)))
    try:
        module, replaced = restoring_builtins(lambda: guard.call("its import", load_with_files_beside, path))
    except PolicyFailed as error:
        raise BadInput(f"policy {name!r}: {path} cannot be loaded: {error}") from error
    if replaced:
        what = f"its import replaces {', '.join(replaced)}"
        raise BadInput(
            f"policy {name!r}: {what}, expected a file that leaves them alone ({path.name}, line 1)"
        )
    return module


def _value(raw: Any, scale: float) -> Any:
    if not isinstance(raw, str):
        return raw
    if raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    for read in (int, float):
        try:
            return read(raw)
        except ValueError:
            continue
    try:
        return parse_duration(raw) * scale
    except ValueError:
        return raw
