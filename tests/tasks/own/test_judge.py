"""The check of a user's class, which runs in a child process: its verdict, its errors and its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.tasks.errors import BadInput
from schedbed.tasks.own import judge as judging
from schedbed.tasks.own.class_source import read_class
from schedbed.tasks.own.judge import judge

CLASS = "class App:\n    def map(self, line): ...\n    def check(self, records, output):\n        {}\n"


def verdict(folder: Path, body: str) -> str | None:
    (folder / "app.py").write_text(CLASS.format(body))
    (folder / "data").write_text("b\na")
    (folder / "part-00000").write_text("a\t1\nb\n")
    source = read_class(folder / "app.py", "App")
    return judge(source, {}, folder, folder / "data", [folder / "part-00000"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("assert (list(records), list(output)) == (['b', 'a'], [('a', '1'), ('b', '')])", None),
        ("return True", None),
        ("return 'b is missing'", "b is missing"),
        ("return False", "check says that it is wrong"),
        ("print('x' * 10_000_000); return 'noisy'", "noisy"),
    ],
)
def test_a_verdict(tmp_path: Path, body: str, said: str | None) -> None:
    assert verdict(tmp_path, body) == said


@pytest.mark.long  # seconds
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "app.py:4: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "app.py:4: check ended the process with exit(3)"),
        ("__import__('os')._exit(3)", "its process ended with status 3 and no answer"),
        ("while True: pass", "it did not end within 1.0s"),
    ],
)
def test_a_check_that_fails(tmp_path: Path, body: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "LIMIT_S", 1.0 if "while" in body else 60.0)
    with pytest.raises(BadInput, match=said.replace("(", r"\(").replace(")", r"\)")):
        verdict(tmp_path, body)
