"""docs/reference/scenario.md: each key of a scenario file with its type, default and meaning, taken from the
models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from schedbed.deploy.scenario.json_schema import scenario_schema
from tests.pages.table_cells import cell

HEAD = """# Scenario

A scenario is one YAML file. This page lists every key; `schedbed schema` prints the same as a JSON Schema, with which
editors check and complete, and `schedbed init` writes a commented scenario to start from.

- Durations are `500ms`, `30s`, `10m`, `1h`; sizes `64MiB`, `1GB`; rates `40MB/s`, `100Mbit/s`. Plain numbers are
  seconds, bytes and bytes a second.
- `scale` multiplies every duration and every amount of data. Rates, memory and `heartbeat` stay.
- A key that is not listed, a wrong unit, or a value out of bounds ends the command with one line and exit code 2.
- Any key can be set on the command line: `--set cluster.node.disk=80MB/s`.
"""
BEYOND_WORDS = 10**9
"""A bound from here on is there against typing errors and says nothing to a reader."""
UNITS = {"s": "duration", "bytes": "size", "bytes per second": "rate"}
WORDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "true or false",
    "array": "list",
    "object": "mapping",
}
STEPS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "s": ((3600, "h"), (60, "m"), (1, "s"), (1e-3, "ms")),
    "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "bytes per second": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
}


def page() -> str:
    """Return the Markdown text of docs/reference/scenario.md."""
    schema = scenario_schema()
    titles = _titles(schema)
    parts = [HEAD, "## The file\n", *_table(schema, titles)]
    for name, title in titles.items():
        section = schema["$defs"][name]
        parts += ["", f"## {title}\n", f"{section['description']}\n", *_table(section, titles)]
    return "\n".join(parts) + "\n"


def _titles(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return a dictionary from the schema's sections to their titles, which are the keys that lead to a
    section.

    The order is that in which a reader meets the sections.
    """
    found: dict[str, str] = {}

    def meet(section: Mapping[str, Any], path: str) -> None:
        for key, value in section.get("properties", {}).items():
            for name, listed in _references(value):
                if name not in found:
                    below, title = schema["$defs"][name], f"{path}{key}{'[]' if listed else ''}"
                    found[name] = (
                        title
                        if title not in found.values()
                        else f"{title} ({next(iter(below['properties']))})"
                    )
                    meet(below, f"{title}.")

    meet(schema, "")
    return found


def _references(value: Any, listed: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the names of the sections that a value may be, and whether the value is a list of them."""
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2], listed
        for key, each in value.items():
            yield from _references(each, listed or key == "items")
    elif isinstance(value, list):
        for each in value:
            yield from _references(each, listed)


def _table(section: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    needed = section.get("required", [])
    yield "| key | value | default | |"
    yield "|---|---|---|---|"
    for key, value in section["properties"].items():
        default = "required" if key in needed else _default(value)
        said = value.get("description", "")
        yield f"| `{key}` | {_kind(value, titles)} | {default} | {cell(said)} |"


def _kind(value: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return the type of a value in words, with links to the sections in `titles`."""
    if "$ref" in value:
        title = titles[value["$ref"].rpartition("/")[2]]
        anchor = re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
        return f"[{title.replace('[]', '')}](#{anchor})"
    for several in ("anyOf", "oneOf"):
        if several in value:
            kinds = [_kind(each, titles) for each in value[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if "unit" in value:
        return UNITS[str(value["unit"])]
    if value.get("type") == "array":
        items = _kind(value["items"], titles) if value.get("items") else ""
        return f"list of {items}" if items else "list"
    return _plain_kind(value)


def _plain_kind(value: Mapping[str, Any]) -> str:
    kind = value.get("type", [])
    words = [WORDS.get(each, each) for each in map(str, kind if isinstance(kind, list) else [kind])]
    if not words:
        return "text or mapping"
    said = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    bounds = [
        f"{word} {value[key]:,}" for key, word in said.items() if key in value and value[key] < BEYOND_WORDS
    ]
    return " ".join([" or ".join(words), *bounds])


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default is None:
        return "" if "default" in value else "-"
    if isinstance(default, dict) or default == []:
        return ""
    if isinstance(default, list):
        return ", ".join(f"`{each}`" for each in default)
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, int | float) and (unit := _unit(value)) in STEPS:
        return f"`{_with_unit(default, STEPS[unit])}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _unit(value: Any) -> str:
    """Return the unit of a value, or of its first alternative with a unit, or an empty text."""
    if isinstance(value, Mapping):
        if "unit" in value:
            return str(value["unit"])
        return next(
            (
                unit
                for several in ("anyOf", "oneOf")
                for each in value.get(several, [])
                if (unit := _unit(each))
            ),
            "",
        )
    return ""


def _with_unit(number: float, steps: tuple[tuple[float, str], ...]) -> str:
    """Return the number with the largest unit of `steps` that needs at most four characters before it."""
    for size, unit in steps:
        if number >= size and len(f"{number / size:g}") <= 4:
            return f"{number / size:g}{unit}"
    return f"{number:g}{steps[-1][1] if number else steps[-2][1]}"
