"""The notebooks of examples/: `python -m tests.pages.notebooks` runs their cells and saves the outputs.

Cells run inside an event loop, as in Jupyter. They use no magics, so that no kernel is needed.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
PICTURE = re.compile(r"data:image/png;base64,[\w+/=]+")


def read(path: Path) -> dict[str, Any]:
    """Return the JSON content of a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))


def ran(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code cells of a notebook in order and in one namespace.

    Return the notebook with their outputs.
    """
    return {**notebook, "cells": asyncio.run(_cells(notebook["cells"]))}


async def _cells(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    made: list[dict[str, Any]] = []
    number = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            number += 1
            outputs = _outputs("".join(cell["source"]), namespace, number)
            cell = {**cell, "execution_count": number, "outputs": outputs}
        made.append(cell)
    return made


def _outputs(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run cell `number`.

    Return its printed text and the value of its last expression in the notebook format.
    """
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        shown = {"data": _shown(value), "execution_count": number, "metadata": {}}
        outputs.append({**shown, "output_type": "execute_result"})
    return outputs


def _shown(value: Any) -> dict[str, list[str]]:
    """Return the HTML of a value if it has any, and its text otherwise."""
    if hasattr(value, "_repr_html_"):
        return {"text/html": value._repr_html_().splitlines(keepends=True)}
    return {"text/plain": repr(value).splitlines(keepends=True)}


def without_pictures(notebook: dict[str, Any]) -> str:
    """Return the notebook as text without the bytes of pictures, which depend on libraries and fonts."""
    return PICTURE.sub("picture", json.dumps(notebook, indent=1, ensure_ascii=False))


def main() -> None:
    """Run all notebooks and save their outputs."""
    for path in NOTEBOOKS:
        text = json.dumps(ran(read(path)), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
