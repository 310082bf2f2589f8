"""Facts read from a user's class without running it, and the error line for an invalid class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.class_source import ClassSource, read_class
from schedbed.tasks.own.imported_files import with_imported

GOOD = '''
raise SystemExit("nobody runs this")


class Base:
    def map(self, line): ...


class App(Base):
    """Does things.

    And more.
    """

    input = "records"
    costs = {"map_s_per_mb": 0.5}

    def __init__(self, name, least=1, *, words=("a",), table=dict()):
        pass

    def reduce(self, key, values): ...
'''


def test_a_class_is_read_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(GOOD)
    found = read_class(path, "App")
    assert (found.summary, found.input, found.costs) == ("Does things.", "records", {"map_s_per_mb": 0.5})
    assert (found.parameters, found.required, found.computed) == ({"least": 1}, ("name",), ("words", "table"))
    assert found.has("map") and found.has("reduce") and not found.has("check")
    assert ClassSource.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("class App:\n    def map(self line): ...\n", "app.py:2: not Python: invalid syntax"),
        ("class Ap:\n    def map(self, line): ...\n", "app.py: there is no class 'App', did you mean 'Ap'?"),
        ("x = 1\n", "app.py: there is no class 'App', it has no class at all"),
        ("class App:\n    pass\n", "app.py:1: class App has no method map, expected def map(self, record)"),
        (
            "class App:\n    def map(self): ...\n",
            "app.py:2: App.map takes (self), expected def map(self, record)",
        ),
        (
            "class App:\n    def map(self, a): ...\n    def reduce(self, a, b, c): ...\n",
            "app.py:3: App.reduce takes (self, a, b, c), expected def reduce(self, key, values)",
        ),
        (
            "class App:\n    async def map(self, a): ...\n",
            "app.py:2: App.map is async, expected def map(self, record)",
        ),
        (
            "class App:\n    def map(self, a): ...\n    def combine(self, k, v): ...\n",
            "app.py:3: App has combine but no reduce, which it is for",
        ),
        (
            "class App:\n    costs = cost()\n    def map(self, a): ...\n",
            'app.py:2: App.costs must be a plain mapping, such as costs = {"map_s_per_mb": 0.02}',
        ),
        (
            "class App:\n    input = 5\n    def map(self, a): ...\n",
            "app.py:2: App.input must be a plain text, such as input = 'text'",
        ),
        ("\0", "app.py: not Python: source code string cannot contain null bytes"),
    ],
)
def test_a_wrong_class_is_one_line(tmp_path: Path, code: str, line: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(code)
    with pytest.raises(BadInput) as caught:
        read_class(path, "App")
    assert str(caught.value).replace(f"{tmp_path}/", "") == line


def test_a_base_class_of_another_file_may_bring_the_methods(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("from beside import Base\nclass App(Base): pass\n")
    assert read_class(path, "App").name == "App"


def test_the_files_that_travel_are_those_that_are_imported(tmp_path: Path) -> None:
    for name, code in {
        "app.py": "import helper, os\nfrom pack.deep import f\ndef g():\n    import late\n",
        "helper.py": "import app\nfrom second import x\n",
        "second.py": "this is no Python\n",
        "late.py": "import nowhere\n",
        "pack/__init__.py": "",
        "pack/deep.py": "from . import other\n",
        "pack/other.py": "",
        "pack/table.csv": "1\n",
        "unused.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    found = [str(path.relative_to(tmp_path)) for path in with_imported(tmp_path / "app.py")]
    assert found == [
        "app.py",
        "helper.py",
        "late.py",
        "pack/__init__.py",
        "pack/deep.py",
        "pack/other.py",
        "pack/table.csv",
        "second.py",
    ]
