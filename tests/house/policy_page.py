"""Write the tables of docs/your-policy.md from the code: `python -m tests.house.policy_page`.

Fields and hooks come from `scheduler/view.py` and `scheduler/hooks.py`, the text of a field from the comment
after it. The table of policies that read task costs, inputs or profiles comes from the source of the
policies.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path

from schedbed.scheduler.registry.registry import COSTS, INPUTS, POLICIES, PROFILES, sizes_read_by
from tests.pages.table_cells import cell

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "your-policy.md"
VIEWS = ("View", "JobView", "StageView", "TaskView", "AttemptView", "NodeView", "TallyView")
PLACE = "<!-- {}: begin -->\n{}\n<!-- {}: end -->"


def tables() -> Mapping[str, str]:
    """Return a dictionary from the names of tables on the page to their Markdown."""
    view = _classes("view")
    made = {name: "\n".join(_fields(view[name], "view")) for name in VIEWS}
    made["Hooks"] = "\n".join(_hooks(_classes("hooks")["Hooks"]))
    made["sizes"] = "\n".join(_sizes())
    return made


def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(_source(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _source(module: str) -> str:
    return (ROOT / "scheduler" / f"{module}.py").read_text(encoding="utf-8")


def _fields(view: ast.ClassDef, module: str) -> Iterator[str]:
    """Yield the lines of a table with a row for each property and method of a view class.

    Raise ValueError if a property has no comment.
    """
    lines = _source(module).splitlines()
    yield "| field | type | |"
    yield "|---|---|---|"
    for node in view.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        kind = cell(ast.unparse(node.returns)) if node.returns else ""
        if node.decorator_list:
            said = lines[(node.end_lineno or 0) - 1].partition("...  # ")[2]
            if not said:
                raise ValueError(f"{view.name}.{node.name} has no comment that says what it is")
            yield f"| `{node.name}` | `{kind}` | {cell(said)} |"
        else:
            yield f"| `{_call(node)}` | `{kind}` | {_text(node)} |"


def _hooks(hooks: ast.ClassDef) -> Iterator[str]:
    yield "| member | |"
    yield "|---|---|"
    for node, after in pairwise(hooks.body):
        match node, after:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as default), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                yield f"| `{name}` | {cell(cleandoc(text))} Default: `{ast.unparse(default)}`. |"
            case _:
                pass
    for node in hooks.body:
        if isinstance(node, ast.FunctionDef):
            yield f"| `{_call(node)}` | {_text(node)} |"


def _call(node: ast.FunctionDef) -> str:
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args if argument.arg != 'self')})"


def _text(node: ast.FunctionDef) -> str:
    return cell(ast.get_docstring(node))


def _sizes() -> Iterator[str]:
    yield f"| policy | {COSTS} | {INPUTS} | {PROFILES} |"
    yield "|---|---|---|---|"
    for name in POLICIES:
        read = sizes_read_by(name)
        yield f"| `{name}` | {' | '.join('yes' if kind in read else '' for kind in (COSTS, INPUTS, PROFILES))} |"


def rendered(page: str) -> str:
    """Return the page with all tables replaced.

    Raise ValueError if a table does not have exactly one place.
    """
    for name, table in tables().items():
        pattern = re.compile(PLACE.format(name, "(.*?)", name), re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"the page has no place for {name}, or several")
        page = pattern.sub(lambda _, name=name, table=table: PLACE.format(name, table, name), page)
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
