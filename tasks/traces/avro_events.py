"""Job histories in Avro's binary form (`Avro-Binary`), read as the lines of the JSON form.

After a line with the form's name and one with the schema, events follow each other without separators.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from schedbed.tasks.errors import BadInput

MARK = b"Avro-Binary\n"
Reader = Callable[[], Any]


def json_lines(path: Path, data: bytes) -> Iterator[str]:
    """Yield the events of a binary history as lines of JSON. Raises BadInput for a damaged one."""
    head = data.find(b"\n", len(MARK))
    try:
        binary = _Binary(data, head + 1)
        read = binary.reader(json.loads(data[len(MARK) : head]), "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput(f"{path}: the second line is no Avro schema, expected a binary job history") from None
    yield "Avro-Json\n"
    while binary.at < len(data):
        began = binary.at
        try:
            yield json.dumps(read()) + "\n"
        except (IndexError, struct.error, ValueError, RecursionError, KeyError):
            raise BadInput(
                f"{path}: byte {began} (unpacked): an event of the binary job history is damaged or cut short"
            ) from None


class _Binary:
    """A position in binary data, and readers of values from there on by their schema."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at
        self._named: dict[str, Reader] = {}
        self._plain: dict[str, Reader] = {
            "null": lambda: None,
            "boolean": lambda: self._take(1) == b"\x01",
            "int": self._long,
            "long": self._long,
            "float": lambda: struct.unpack("<f", self._take(4))[0],
            "double": lambda: struct.unpack("<d", self._take(8))[0],
            "string": lambda: self._bytes().decode(),
            "bytes": lambda: self._bytes().decode("latin-1"),
        }

    def reader(self, schema: Any, space: str) -> Reader:
        """Return the reader of a schema. Names without a dot are in the namespace `space`."""
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return self._plain[schema] if schema in self._plain else self._named[_full(schema, space)]
        kind = schema["type"]
        if kind in ("array", "map"):
            return self._blocks(self.reader(schema["items" if kind == "array" else "values"], space), kind)
        if kind not in ("record", "error", "enum", "fixed"):
            return self.reader(kind, space)
        space = schema.get("namespace", space)
        name = _full(schema["name"], space)
        if kind == "enum":
            made: Reader = lambda: schema["symbols"][self._long(0)]  # noqa: E731
        elif kind == "fixed":
            made = lambda: self._take(schema["size"]).decode("latin-1")  # noqa: E731
        else:
            fields: dict[str, Reader] = {}
            made = lambda: {key: read() for key, read in fields.items()}  # noqa: E731
            self._named[name] = made  # A record may contain itself.
            space = name.rpartition(".")[0]
            fields |= {each["name"]: self.reader(each["type"], space) for each in schema["fields"]}
        self._named[name] = made
        return made

    def _union(self, schema: list[Any], space: str) -> Reader:
        branches = [(_kind(each, space), self.reader(each, space)) for each in schema]

        def read() -> Any:
            name, branch = branches[self._long(0)]
            return None if name == "null" else {name: branch()}

        return read

    def _blocks(self, item: Reader, kind: str) -> Reader:
        def read() -> Any:
            found: list[Any] = []
            while count := self._long():
                if count < 0:  # The block's size in bytes follows.
                    count = -count
                    self._long()
                for _ in range(count):
                    found.append((self._bytes().decode(), item()) if kind == "map" else item())
            return dict(found) if kind == "map" else found

        return read

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self.at:
            raise IndexError(count)
        self.at += count
        return self._data[self.at - count : self.at]

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _long(self, least: int | None = None) -> int:
        """Return a number of variable length, in zigzag form. Raises IndexError below `least`."""
        value = shift = 0
        more = True
        while more:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            more = byte > 0x7F and shift < 70
        number = (value >> 1) ^ -(value & 1)
        if least is not None and number < least:
            raise IndexError(number)
        return number


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _kind(schema: Any, space: str) -> str:
    """Return the name of a union's branch, as JSON has it."""
    if isinstance(schema, str):
        return schema
    named = schema["type"] in ("record", "error", "enum", "fixed")
    return _full(schema["name"], schema.get("namespace", space)) if named else schema["type"]
