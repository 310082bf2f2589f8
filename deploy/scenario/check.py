"""Validation of a scenario document. All errors are reported in one exception, one error per line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from schedbed.deploy.scenario.models import Scenario
from schedbed.deploy.scenario.yaml_file import Document, KeyPath, show_path
from schedbed.tasks.errors import BadInput

Model = TypeVar("Model", bound=BaseModel)


@dataclass(slots=True)
class Complaints:
    """A collection of the errors found in a scenario document.

    `raise_if_any` raises one exception with all of them, in the order of the file.
    """

    document: Document
    _found: list[tuple[KeyPath, str]] = field(default_factory=list)

    def add(self, path: KeyPath, message: str) -> None:
        """Add an error message for a key path such as ("workload", "jobs", 0, "maps"), once."""
        if (path, message) not in self._found:
            self._found.append((path, message))

    def raise_if_any(self) -> None:
        """Raise BadInput with one line per collected error; do nothing if there are none."""
        if self._found:
            ordered = sorted(self._found, key=lambda item: self.document.line(item[0]))
            raise BadInput("\n".join(self._line(path, message) for path, message in ordered))

    def _line(self, path: KeyPath, message: str) -> str:
        shown = show_path(path)
        text = " ".join(f"{shown}: {message}".split()) if shown else message
        return f"{self.document.where(path)}: {text}"


def check(document: Document) -> Scenario:
    """Return the document as a validated `Scenario`. Raises BadInput with one line per wrong key, unit or type."""
    return check_as(Scenario, document, "workload")


def check_as(model: type[Model], document: Document, key: str) -> Model:
    """Return the document as `model`. Raises BadInput with a line per error. `key` is an example of a key."""
    if not isinstance(document.value, Mapping):
        raise BadInput(
            f"{document.name}: expected a mapping with a key {key!r}, got {_short(document.value)}"
        )
    try:
        return model.model_validate(document.value)
    except ValidationError as error:
        complaints = Complaints(document)
        for fault in error.errors(include_url=False):
            path = _path_of(document.value, fault["loc"])
            complaints.add(path, _message(dict(fault), path, model))
        complaints.raise_if_any()
        raise


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `did you mean 'cpu'?` if a known name is similar, else a list of all known names."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"


def _path_of(value: Any, loc: tuple[Any, ...]) -> KeyPath:
    """Convert the location of a pydantic error to a key path, without names of branches of a union type."""
    path: list[str | int] = []
    for place, key in enumerate(loc):
        inside = isinstance(value, Mapping) and key in value
        if inside or (isinstance(value, list) and isinstance(key, int) and key < len(value)):
            value = value[key]
            path.append(key)
        elif place == len(loc) - 1 and isinstance(value, Mapping) and isinstance(key, str) and " " not in key:
            path.append(key)
    return tuple(path)


def _message(fault: Mapping[str, Any], path: KeyPath, model: type[BaseModel]) -> str:
    kind, context, value = fault["type"], fault.get("ctx", {}), _short(fault.get("input"))
    if kind == "extra_forbidden":
        return f"unknown key, {did_you_mean(str(path[-1]), _keys_at(path[:-1], model))}"
    if kind == "missing":
        return "missing"
    if kind == "value_error":
        return str(context.get("error", fault["msg"]))
    if kind in _EXPECTED:
        return f"{value} is not {_EXPECTED[kind].format(**context)}"
    return f"{value}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "literal_error": "one of {expected}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "a text of at least {min_length} character",
    "string_too_long": "a text of at most {max_length} characters",
    "too_short": "a list of at least {min_length}",
    "string_pattern_mismatch": "a name of letters, digits, dots, dashes and underscores",
}


def _keys_at(path: KeyPath, root: type[BaseModel]) -> list[str]:
    model: type[BaseModel] | None = root
    for key in path:
        if isinstance(key, str) and model is not None:
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            model = _model_in(fields[key].annotation) if key in fields else None
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
