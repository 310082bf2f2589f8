"""YAML parsing that records the line of each key, and `--set` overrides. Keys are not interpreted here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from schedbed.tasks.errors import BadInput
from schedbed.tasks.plain_file import is_plain_file

KeyPath = tuple[str | int, ...]
"""The path of a value in a document, such as `("workload", "jobs", 1, "map", "cpu")`."""

_VALUES_MAX = 200_000
_BYTES_MAX = 8 << 20
_DEPTH_MAX = 100
_PLAIN = {
    "int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"),
    "float": re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"),
    "null": re.compile(r"(?:~|null|Null|NULL|)$"),
}


class _Loader(yaml.SafeLoader):
    """A YAML loader that interprets plain values as YAML 1.2 does: `off`, `no`, `10:30` and dates stay
    strings.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse too many values while they are parsed, which takes longer than all other steps. Keys do not count."""
        self.values += index is not None
        if self.values > _VALUES_MAX:
            raise yaml.MarkedYAMLError(
                problem=f"more than {_VALUES_MAX:,} values", problem_mark=self.get_mark()
            )
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        """Refuse deep nesting early, since PyYAML's run time grows with the square of the depth."""
        if self.flow_level >= _DEPTH_MAX:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)


for _kind, _pattern in _PLAIN.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _pattern, None)


@dataclass(slots=True)
class Document:
    """The values of a scenario file, and the line or the command option from which each value comes."""

    value: Any
    name: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    sets: dict[KeyPath, str] = field(default_factory=dict)  # the command option that set a value

    def line(self, path: KeyPath) -> int:
        """Return the line of `path` or of the nearest key above it in the file, else 0."""
        return next(
            (self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), 0
        )

    def where(self, path: KeyPath) -> str:
        """Return the origin, `FILE:LINE` or `--set KEY=VALUE`, of the value or the nearest key above."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.sets:
                return self.sets[path[:end]]
            if path[:end] in self.lines:
                return f"{self.name}:{self.lines[path[:end]]}"
        return self.name

    def mark(self, path: KeyPath, option: str) -> None:
        """Record that the command option `option`, not the file, sets the value at this path."""
        for line in [line for line in self.lines if line[: len(path)] == path]:
            del self.lines[line]
        self.sets[path] = option


def load_file(path: Path) -> Document:
    """Read a scenario file and return its document. Raises BadInput if the file is missing, too large or not YAML."""
    try:
        if path.exists() and not is_plain_file(path) and not path.is_dir():
            raise BadInput(f"{path}: cannot read this scenario: not a regular file")
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise BadInput(f"{path}: cannot read this scenario: larger than {_BYTES_MAX >> 20} MiB")
        text = content.decode("utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot read this scenario: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not a YAML text: byte {error.start} is not UTF-8") from None
    return load_text(text, str(path))


def load_text(text: str, name: str) -> Document:
    """Parse YAML; `name` is for messages. Raises BadInput, with the line, for invalid YAML and duplicate keys."""
    document = Document(value=None, name=name)
    try:
        node = yaml.compose(text, Loader=_Loader)
        document.value = _Builder(document).build(node, ())
    except yaml.YAMLError as error:
        raise BadInput(_yaml_fault(error, name)) from None
    except RecursionError:
        raise BadInput(f"{name}: nested too deeply") from None
    return document


def from_values(value: Mapping[str, Any], name: str = "scenario") -> Document:
    """Return a document, without line numbers, for a program's values."""
    return Document(value=deepcopy(dict(value)), name=name)


def apply_set(document: Document, setting: str) -> None:
    """Apply a `--set KEY=VALUE`. Raises BadInput if the key cannot be set.

    KEY is a dotted path with list indexes, such as `workload.jobs[0].maps`. VALUE is YAML.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--set {setting}: expected KEY=VALUE, such as cluster.node.core_speed=0.2")
    value = load_text(text, f"--set {setting}").value
    path = _parse_key(key.strip())
    holder = _holder(document, path, setting)
    if not _can_set(holder, path[-1]):
        raise BadInput(f"--set {setting}: {_no_place(holder, path[-1])}")
    holder[path[-1]] = value
    document.mark(path, f"--set {setting}")


def show_path(path: KeyPath) -> str:
    """Return text such as `workload.jobs[1].map.cpu`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def _parse_key(key: str) -> KeyPath:
    parts = re.sub(r"\[([0-9]+)\]", r".\1", key).split(".")
    return tuple(
        int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part for part in parts
    )


def _holder(document: Document, path: KeyPath, setting: str) -> Any:
    if document.value is None:
        document.value = {}
    value = document.value
    for key, following in pairwise(path):
        if not _holds(value, key) and not _can_set(value, key):
            raise BadInput(f"--set {setting}: {_no_place(value, key)}")
        if (not _holds(value, key) or value[key] is None) and isinstance(following, str):
            value[key] = {}
        if not _holds(value, key):
            raise BadInput(f"--set {setting}: there is no {key!r} here to index by {following}")
        value = value[key]
    return value


def _holds(value: Any, key: str | int) -> bool:
    if isinstance(value, dict):
        return key in value
    return isinstance(value, list) and isinstance(key, int) and key < len(value)


def _can_set(value: Any, key: str | int) -> bool:
    return isinstance(value, dict) or _holds(value, key)


def _no_place(value: Any, key: str | int) -> str:
    if isinstance(value, list):
        return f"{key!r} is not an index of this list of {len(value)} (counted from 0)"
    return f"{key!r} cannot be set inside {_short(value)}, which is not a mapping"


class _Builder:
    """A converter of parsed YAML nodes to plain Python values.

    It records the line of each key, and refuses duplicate keys and documents with too many values.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0

    def build(self, node: yaml.Node | None, path: KeyPath) -> Any:
        if node is None:
            return None
        self._count += 1
        if self._count > _VALUES_MAX or len(path) > _DEPTH_MAX:
            raise BadInput(f"{self._at(node)}: too many or too deeply nested values")
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(node)

    def _items(self, node: yaml.MappingNode, path: KeyPath) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadInput(f"{self._at(key_node)}: a key must be a plain word")
            key = str(key_node.value)
            if key in seen:
                shown = show_path((*path, key))
                raise BadInput(f"{self._at(key_node)}: {shown}: given twice (first on line {seen[key]})")
            seen[key] = line
            self._document.lines[(*path, key)] = line
            yield key, self.build(value_node, (*path, key))

    def _scalar(self, node: yaml.Node) -> Any:
        kind = node.tag.rpartition(":")[2]
        text = str(node.value)
        if kind == "str":
            return text
        if kind == "null" and _PLAIN["null"].match(text):
            return None
        if kind == "bool" and _PLAIN["bool"].match(text):
            return text.lower() == "true"
        if kind in ("int", "float") and _PLAIN[kind].match(text) and len(text) < 400:
            return int(text.replace("_", "")) if kind == "int" else float(text)
        raise BadInput(f"{self._at(node)}: {_short(text)} is not a plain YAML value ({node.tag})")

    def _at(self, node: yaml.Node) -> str:
        return f"{self._document.name}:{node.start_mark.line + 1}"


def _yaml_fault(error: yaml.YAMLError, name: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        context = f" ({error.context})" if error.context else ""
        return f"{name}:{error.problem_mark.line + 1}: not YAML: {error.problem}{context}"
    return f"{name}: not YAML: {' '.join(str(error).split())}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
