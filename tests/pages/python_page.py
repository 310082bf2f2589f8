"""docs/reference/python.md: the API of `schedbed` and `schedbed.policy`, taken from signatures and
docstrings.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import Any

import schedbed
from schedbed import policy
from schedbed.deploy.service.client import Cluster, SubmittedJob
from tests.pages.table_cells import cell

HEAD = """# Python

```python
import schedbed

result = schedbed.run("quickstart", policies=["fifo", "fair"], machines="sim")
print(result.jobs.groupby("policy")["finish"].max(), result.trusted)
```

The package is typed (`py.typed`). What this page lists stays within 1.x ([what stays](../stability.md));
modules below `schedbed.tasks`, `.cluster`, `.scheduler` and `.deploy` are not part of that.
"""
POLICY = """## schedbed.policy

What a policy of your own is written against. The fields of the views and the hooks are tables of their own in [Your own
policy](../your-policy.md).
"""
PARAMETER = re.compile(r"^([a-z_]+(?:, [a-z_]+)*): ")
SHOWN_ELSEWHERE = {"View", "JobView", "TaskView", "AttemptView", "NodeView", "Hooks"}


def page() -> str:
    """Return the Markdown text of docs/reference/python.md."""
    parts = [HEAD, "## schedbed\n"]
    for name in schedbed.__all__:
        if name not in ("__version__", "policy"):
            parts += _thing(f"schedbed.{name}", getattr(schedbed, name))
    parts += [
        "## What `connect` returns\n",
        *_thing("Cluster", Cluster),
        *_thing("SubmittedJob", SubmittedJob),
    ]
    parts.append(POLICY)
    for name in policy.__all__:
        thing = getattr(policy, name)
        parts += _thing(f"schedbed.policy.{name}", thing, members=name not in SHOWN_ELSEWHERE)
    return "\n".join(parts).rstrip("\n") + "\n"


def _thing(name: str, thing: Any, *, members: bool = True) -> Iterator[str]:
    yield f"### {name}\n"
    if not isinstance(thing, type):
        yield f"```text\n{_wrapped(name.rpartition('.')[2], thing)}\n```\n"
        yield f"{_text(thing)}\n"
        return
    yield f"{_text(thing)}\n"
    rows = list(_members(thing)) if members else []
    if rows:
        yield "| | |\n|---|---|"
        yield "\n".join(rows) + "\n"


def _members(thing: type) -> Iterator[str]:
    for key, kind in inspect.get_annotations(thing).items():
        if not key.startswith("_"):
            default = getattr(thing, key, None)
            shown = f" = {default}" if isinstance(default, bool | int | float) else ""
            kind = getattr(kind, "__forward_arg__", kind)
            yield f"| `{key}: {cell(str(kind))}{shown}` | |"
    for key, member in vars(thing).items():
        if key.startswith("_"):
            continue
        if isinstance(member, Enum):
            yield f"| `{key}` | `{member.value}` |"
        elif isinstance(member, property | cached_property):
            read: Any = member.fget if isinstance(member, property) else member.func
            kind = inspect.get_annotations(read).get("return", "")
            yield f"| `{key}: {cell(str(kind))}` | {_prose(read)} |"
        elif inspect.isfunction(member):
            yield f"| `{cell(key + _signature(member))}` | {_prose(member)} |"


def _signature(function: Any) -> str:
    """Return a function's signature without `self`, and without quotes around types."""
    shown = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", shown)


def _wrapped(name: str, function: Any) -> str:
    """Return a function's name and signature, with one parameter a line if they are longer than a line."""
    shown = name + _signature(function)
    if len(shown) <= 100:
        return shown
    inside, _, returns = shown.partition("(")[2].rpartition(") -> ")
    parameters = re.split(r", (?=\w+:|\*)", inside)
    lines = ",\n".join(f"    {each}" for each in parameters)
    return f"{name}(\n{lines},\n) -> {returns}"


def _text(thing: Any) -> str:
    """Return the docstring as Markdown.

    A paragraph with lines of the form `name: description` becomes a list.
    """
    text = textwrap.dedent(inspect.getdoc(thing) or "").strip()
    return "\n\n".join(map(_listed, text.split("\n\n")))


def _listed(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if not PARAMETER.match(lines[0]) or any(not PARAMETER.match(line) and line[:1] != " " for line in lines):
        return paragraph
    return "\n".join(
        PARAMETER.sub(r"- `\1`: ", line) if PARAMETER.match(line) else f"  {line.strip()}" for line in lines
    )


def _prose(thing: Any) -> str:
    """Return the docstring in one line, with `<` escaped, which Markdown would take for HTML."""
    return cell(_text(thing)).replace("<", "&lt;")
