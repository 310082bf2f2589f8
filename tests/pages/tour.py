"""docs/tour.md: the text of tour.template.md with excerpts from the source in it.

A line `{{code path:name}}` becomes the function or method of that name without its docstring. `{{test
path:name}}` within a line becomes a link to a test. ValueError means that one of them does not exist, for
instance after a renaming: correct the template.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from tests.house.twins import find

ROOT = Path(__file__).parents[2]
TEMPLATE = Path(__file__).with_name("tour.template.md")
CODE = re.compile(r"^\{\{code ([\w./]+:[\w.]+)\}\}$", re.MULTILINE)
TEST = re.compile(r"\{\{test ([\w./]+):(\w+)\}\}")


def page() -> str:
    """Return the Markdown text of docs/tour.md."""
    return rendered(TEMPLATE.read_text(encoding="utf-8"))


def rendered(template: str) -> str:
    """Return the template with its excerpts and links filled in."""
    text = CODE.sub(lambda found: _code(found[1]), template)
    text = TEST.sub(lambda found: _test(found[1], found[2]), text)
    if "{{" in text:
        raise ValueError(f"{text[text.index('{{') :].splitlines()[0]} is neither code nor a test")
    return text


def _code(place: str) -> str:
    """Return a Markdown block with the source of the function at `path:name`, headed by its name and file."""
    node = find(place)
    path, _, name = place.partition(":")
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise ValueError(f"{place} is no function")
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    said = node.body[0] if ast.get_docstring(node) is not None else None
    dropped = range(said.lineno, (said.end_lineno or 0) + 1) if said is not None else range(0)
    kept = [lines[at - 1] for at in range(node.lineno, (node.end_lineno or 0) + 1) if at not in dropped]
    code = textwrap.dedent("\n".join(kept))
    return f"`{name}` in [{path}](../{path}):\n\n```python\n{code}\n```"


def _test(path: str, name: str) -> str:
    if find(f"{path}:{name}") is None:
        raise ValueError(f"{path} has no {name}")
    return f"[{name}](../{path})"
