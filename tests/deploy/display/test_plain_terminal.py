"""Tests that nobody's names reach the terminal with control characters, and that rich keeps its own."""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedbed.deploy.display.plain_terminal import PlainTerminal, plain
from tests.harness.damaged_runs import SCENARIO, call

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[8mjob\r\x9b31m"
LEFT = "]0;owned[2J[8mjob31m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_printed_texts_lose_control_characters() -> None:
    terminal = Terminal()
    stream = plain(terminal)
    print(f"{EVIL}\tx", file=stream)
    stream.writelines([EVIL, "\n"])
    assert terminal.getvalue() == f"{LEFT}\tx\n{LEFT}\n"
    assert plain(sys.__stdout__ if not sys.__stdout__ or not sys.__stdout__.isatty() else None) is not stream


def test_rich_keeps_its_colors_and_strips_texts() -> None:
    terminal = Terminal()
    console = Console(file=plain(terminal), force_terminal=True, width=200)
    table = Table("name")
    table.add_row(EVIL)
    table.add_row(Text(EVIL, style="bold"))
    console.print(f"[red]{EVIL.replace('[', chr(92) + '[')}")
    console.print(table)
    said = terminal.getvalue()
    assert said.count("owned") == 3 and "\x1b[31m" in said
    assert not any(bad in said for bad in ("\x1b]", "\x1b[2J", "\x1b[8m", "\x07", "\x9b"))


def test_what_is_no_terminal_is_left_as_it_is() -> None:
    stream = io.StringIO()
    assert plain(stream) is stream and not isinstance(plain(None), PlainTerminal)


@pytest.mark.parametrize("command", ["explain", "run"])
def test_a_job_cannot_write_escapes_to_the_terminal(tmp_path: Path, command: str) -> None:
    file, out = tmp_path / "s.yaml", tmp_path / "out"
    name = EVIL.encode("unicode_escape").decode()
    scenario = SCENARIO.replace("SECONDS", "1s").replace("name: a,", f'name: "{name}", user: "{name}",')
    file.write_text(scenario)
    arguments = ("run", file, "--machines", "sim", "--no-live", "--out", out)
    if command == "explain":
        code, text = call(*arguments)
        assert code == 0, text
        arguments = ("explain", out, "job_0001_m_000000")
    program = [sys.executable, "-m", "schedbed", *map(str, arguments)]
    said = bytearray()

    def read(terminal: int) -> bytes:
        data = os.read(terminal, 4096)
        said.extend(data)
        return data

    pty.spawn(program, read, lambda _: b"")
    assert b"owned" in said or command == "run", said.decode(errors="replace")
    assert not any(bad in said for bad in (b"\x1b]", b"\x1b[2J", b"\x1b[8m", b"\x07")), bytes(said)
