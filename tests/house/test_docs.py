"""The pages refer to existing files and commands, and use the words of the glossary; `tests/pages` runs their
commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from schedbed.deploy.cli.main import app
from tests.bench.figures import ROOT
from tests.house.test_rules import FILES, name_of

TOP = ("README.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [
    path for path in PAGES if not path.name.endswith(".template.md")
]  # Templates are looked at as the pages they make.
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
PYTHON = re.compile(r"^ *```python\n.*?^ *```$", re.MULTILINE | re.DOTALL)
PROSE = {page: PYTHON.sub("", text) for page, text in TEXTS.items()}
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
OWN_FILE = re.compile(r"`((?:tasks|cluster|scheduler|deploy|tests|docs)/[\w./-]+)`")
BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
IN_LINE = re.compile(r"`(schedbed [^`]+)`")
COMMAND = re.compile(r"^(?:\$ )?schedbed ([a-z][^#\n]*)", re.MULTILINE)
SCHEDBED = typer.main.get_command(app)
IN_BACKTICKS = re.compile(r"`[^`\n]+`")
NOT_SAID = r"\b(beats?|blows?|strikes?|struck|film|anew|likewise|alike|so many|for so long)\b"

NOT_WRITTEN = r"\b(anew|likewise|so many|for so long|blows?)\b"

BRITISH = r"\b(colour\w*|per cent|modelled|labelled|judgement|neighbours?|behaviour|favour\w*|centre)\b"


@pytest.mark.parametrize("page", TEXTS)
def test_a_link_leads_to_a_file(page: str) -> None:
    folder = (ROOT / page).parent
    assert [link for link in LINK.findall(PROSE[page]) if not (folder / link).exists()] == []


@pytest.mark.parametrize("page", sorted(set(TEXTS) - {"CHANGELOG.md"}))
def test_a_file_that_is_named_is_there(page: str) -> None:
    named = [name.rstrip("/.") for name in OWN_FILE.findall(TEXTS[page]) if not name.isupper()]
    assert [name for name in named if not re.search("PAPER|NAME", name) and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_uses_the_words_of_the_glossary(page: str) -> None:
    prose = IN_BACKTICKS.sub("", PROSE[page])  # names of the code stay what they are
    assert re.findall(f"{NOT_SAID}|{BRITISH}", prose, re.IGNORECASE) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_code_says_a_number_and_again(path: Path) -> None:
    """Docstrings, comments and help avoid the words that pages avoid.

    Names such as a parameter `alike` may stay.
    """
    assert re.findall(f"{NOT_WRITTEN}|{BRITISH}", path.read_text(encoding="utf-8"), re.IGNORECASE) == []


def test_the_index_lists_every_page() -> None:
    listed = {Path(link).name for link in LINK.findall(TEXTS["docs/README.md"])}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


@pytest.mark.parametrize("page", TEXTS)
def test_a_command_that_is_shown_is_there_with_its_options(page: str) -> None:
    shown = "\n".join([*BLOCK.findall(TEXTS[page]), *IN_LINE.findall(TEXTS[page])])
    for line in COMMAND.findall(shown.replace(";  schedbed", "\nschedbed")):
        words = line.replace("[", " ").replace("]", " ").split()
        options, words = options_of(words)
        asked = {word.split("=")[0] for word in words if word.startswith("--")}
        assert asked <= options, f"schedbed {line}"


def options_of(words: list[str]) -> tuple[set[str], list[str]]:
    """Return the options of the command that `words` begin with, and the words after the command's name."""
    command: Any = SCHEDBED
    while words and isinstance(command, TyperGroup) and not words[0].startswith("--"):
        assert words[0] in command.commands, f"schedbed has no command {' '.join(words)}"
        command, words = command.commands[words[0]], words[1:]
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}, words
