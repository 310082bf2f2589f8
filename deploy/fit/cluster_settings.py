"""The settings in configuration files, as values of a scenario, and those that no scenario has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from schedbed.tasks.errors import BadInput

BYTES_MAX = 16 << 20


TOLD = {
    "monitor": "yarn-capacity, preemption",
    "preemption": "yarn-capacity, preemption",
    "intra_queue_preemption": "yarn-capacity, intra_queue_preemption",
    "hadoop1": "hadoop1-fair",
    "spark": "spark-fifo and spark-fair",
}
"""The names under which users are shown the sections that are not part of a scenario."""


class Counterpart(NamedTuple):
    """The counterpart of a setting: `section` of a `ClusterSettings`, the key there, and how its text is read."""

    section: str
    key: str
    read: Callable[[str], Any] = str


@dataclass(slots=True)
class ClusterSettings:
    """The settings of all files so far, by section. A section is a part of the scenario, or a policy's parameters.

    `policy`: the scheduler that the files name. `queues`: the paths that jobs may name, None if any will do. `taken`,
    `without`: a line for each setting that has a counterpart, or has none.
    """

    policy: str = ""
    sections: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    queues: set[str] | None = None
    taken: list[str] = field(default_factory=list[str])
    without: list[str] = field(default_factory=list[str])

    def section(self, name: str) -> dict[str, Any]:
        """Return the section, empty if nothing was read for it."""
        return self.sections.setdefault(name, {})

    def take(self, where: str, name: str, text: str, setting: Counterpart) -> None:
        """Read a setting with a counterpart. Raises BadInput for a value that is wrong."""
        try:
            value = setting.read(text)
        except (ValueError, KeyError):
            raise BadInput(f"{where}: {name}: {text!r} is no value of this setting") from None
        self.section(setting.section)[setting.key] = value
        self.note(
            where, name, text, f"{TOLD.get(setting.section, setting.section)}: {setting.key}={shown(value)}"
        )

    def note(self, where: str, name: str, text: str, becomes: str) -> None:
        """List a setting as taken."""
        self.taken.append(f"{where}: {name} = {text} -> {becomes}")

    def lacks(self, where: str, name: str, text: str, why: str = "") -> None:
        """List a setting without counterpart."""
        self.without.append(f"{where}: {name} = {text}{why and f' ({why})'}")


def shown(value: Any) -> str:
    """Return a value as one would write it in a scenario."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def text_of(path: Path) -> str:
    """Return a configuration file's text. Raises BadInput."""
    try:
        if not path.is_file():
            raise BadInput(f"--conf {path}: not a file")
        if path.stat().st_size > BYTES_MAX:
            raise BadInput(f"--conf {path}: more than {BYTES_MAX >> 20} MiB, expected a configuration file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--conf {path}: cannot read: {error}") from None


def xml_of(path: Path, text: str) -> ElementTree.Element:
    """Return the file's root element. Raises BadInput. Entities are refused: few lines of them can fill a memory."""
    if "<!ENTITY" in text or "<!DOCTYPE" in text:
        raise BadInput(f"--conf {path}: declares entities or a document type, expected plain XML")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BadInput(f"--conf {path}: {error}, expected XML") from None


def properties(path: Path, root: ElementTree.Element) -> Iterable[tuple[str, str]]:
    """Yield the names and values of a Hadoop `<configuration>`, with `${NAME}` of the same file replaced."""
    found: dict[str, str] = {}
    for each in root.iter("property"):
        name = (each.findtext("name") or "").strip()
        if not name:
            raise BadInput(f"--conf {path}: a property without a name")
        found[name] = (each.findtext("value") or "").strip()
    for name, text in found.items():
        yield name, re.sub(r"\$\{([\w.-]+)\}", lambda match: found.get(match[1], match[0]), text)


def children(element: ElementTree.Element) -> Iterable[tuple[str, str, ElementTree.Element]]:
    """Yield the name, the stripped text and the element of each child element."""
    for child in element:
        if isinstance(child.tag, str):
            yield child.tag, (child.text or "").strip(), child


# Readers of values


def whole(text: str) -> int:
    return int(float(text)) if float(text) == int(float(text)) else int(text)


def truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def mebibytes(text: str) -> str:
    return f"{whole(text)}MiB"


def milliseconds(text: str) -> str:
    return f"{whole(text)}ms"


def seconds(text: str) -> str:
    return f"{float(text):g}s"


def number(text: str) -> float:
    value = float(text)
    return int(value) if value == int(value) else value


def one_of(names: Mapping[str, Any]) -> Callable[[str], Any]:
    return lambda text: names[text.lower()]
