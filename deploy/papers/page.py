"""The page `index.html` of a reproduction, made from the content of results.json. It needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

from schedbed.deploy.papers.terminal import counted, marks, number, ran, remarks, with_unit, without_task
from schedbed.deploy.papers.verdict import CONTRADICTED, HOLDS, OPEN, WORDS
from schedbed.deploy.results.page import templates

NAME = "index.html"
MARKS = {HOLDS: "good", OPEN: "open", CONTRADICTED: "bad"}
HEADS = "".join(f"<th>{word}</th>" for word in WORDS)

Content = Mapping[str, Any]


def text(content: Content, folder: Path) -> str:
    """Return the HTML of the page for the content of results.json. Figures in `folder` are embedded."""
    experiments = content["experiments"]
    sections = [
        _paper(content["papers"][name], list(mine), folder)
        for name, mine in groupby(experiments, lambda each: each["paper"])
    ]
    parts = resources.files("schedbed.deploy.papers")
    return Template(parts.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        style=templates.style(),
        facts=_facts(content),
        kinds=_by_kind(experiments),
        overview=_overview(experiments),
        sections="\n".join(sections),
        versions=escape(", ".join(f"{name} {version}" for name, version in content["versions"].items())),
    )


def _facts(content: Content) -> str:
    host = content["host"]
    memory = f", {host['memory_bytes'] / 2**30:.0f} GiB" if host.get("memory_bytes") else ""
    facts = [
        "simulated" if content["machines"] == "sim" else f"{content['machines']} machines",
        f"seed {content['seed']}",
        f"host: {host.get('cores', '?')} cores{memory}, {host.get('system', '')}",
        content["wall_start"],
    ]
    return " · ".join(escape(str(fact)) for fact in facts)


def _by_kind(experiments: Sequence[Content]) -> str:
    """Return an HTML table of claims by kind and word."""
    rows = [row for each in experiments for row in each["rows"]]
    idle = without_task(rows)
    body = "".join(
        f"<tr><th>{kind}</th>{_cells(numbers)}<td>{idle.get(kind, 0) or '–'}</td></tr>"
        for kind, numbers in counted(rows).items()
    )
    return f"<table><thead><tr><th></th>{HEADS}<th>run no task</th></tr></thead><tbody>{body}</tbody></table>"


def _overview(experiments: Sequence[Content]) -> str:
    """Return an HTML table of claims by experiment and word, with `outcome` in its own columns."""
    rows: list[str] = []
    for each in experiments:
        counts = dict(counted(each["rows"]))
        outcomes = counts.pop("outcome", [0] * len(WORDS))
        others = [sum(numbers) for numbers in zip([0] * len(WORDS), *counts.values(), strict=False)]
        link = f'<a href="#{_id(each)}">{escape(each["paper"])}/{escape(each["experiment"])}</a>'
        title = escape(each["title"]) + (" <b>(broken)</b>" if each["note"] else "")
        rows.append(
            f'<tr><th>{link}</th><td class="text">{title}</td>{_cells(outcomes)}{_cells(others)}</tr>'
        )
    spans = "".join(f'<th colspan="{len(WORDS)}">{head}</th>' for head in ("outcomes", "other claims"))
    return (
        f'<table><thead><tr><th></th><th class="text"></th>{spans}</tr>'
        f'<tr><th></th><th class="text"></th>{HEADS * 2}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _cells(numbers: Sequence[int]) -> str:
    return "".join(
        f'<td class="{mark if count else "none"}">{count or "–"}</td>'
        for mark, count in zip(MARKS.values(), numbers, strict=True)
    )


def _paper(said: Content, experiments: Sequence[Content], folder: Path) -> str:
    head = (
        f"<h2>{escape(said['title'])}</h2>"
        f'<p class="note">{escape(said["authors"])}. {escape(said["published"])}.</p>'
    )
    return f"<section>{head}{''.join(_experiment(each, folder) for each in experiments)}</section>"


def _experiment(each: Content, folder: Path) -> str:
    seeds = ", ".join(map(str, each["seeds"]))
    about = f"{each['repeats']} repeat{'' if each['repeats'] == 1 else 's'}, seeds {seeds}, {each['took_s']:.0f} s"
    head = (
        f'<article id="{_id(each)}"><h3>{escape(each["paper"])}/{escape(each["experiment"])}: '
        f'{escape(each["title"])}</h3><p class="note">{escape(each["where"])} · {about}</p>'
        f'<p class="setup">{escape(each["setup"])}</p><p class="setup">{escape(size_of(each))}</p>'
    )
    if each["note"]:
        return f'{head}<div class="banner doubt"><b>Broken.</b> {escape(each["note"])}</div></article>'
    letters = marks(each["rows"])
    beside = [f"[{letter}] {text}" for text, letter in letters.items()]
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*beside, *each["notes"]))
    return (
        f'{head}<div class="outcome"><div class="scroll">{_table(each["rows"], letters)}</div>'
        f"{_picture(each, folder)}</div>" + (f'<ul class="note">{notes}</ul>' if notes else "") + "</article>"
    )


def size_of(each: Content) -> str:
    """Return the size of what ran against the printed one, and what else is not as printed."""
    differs = f"Not as printed: {'; '.join(each['differs'])}." if each["differs"] else ""
    return f"{ran(each['printed'], each['size'])}. {differs}" if each["size"] else differs


def _table(rows: Sequence[Content], letters: Mapping[str, str]) -> str:
    body = "".join(
        f"<tr><th>{escape(row['what'])}</th><td>{_said(row)}</td><td>{_ours(row)}</td>"
        f'<td class="text">{_kind(row)}</td>'
        f'<td class="text {MARKS.get(row["verdict"], "")}">{_claim(row, letters)}</td></tr>'
        for row in rows
    )
    heads = '<th></th><th>paper</th><th>ours</th><th class="text">kind</th><th class="text">claim</th>'
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _kind(row: Content) -> str:
    if not row["wanted"]:
        return ""
    return row["kind"] + ('<span class="diff">runs no task</span>' if row["no_task"] else "")


def _said(row: Content) -> str:
    if row["paper"] is None:
        return "–"
    mark = '<span title="read off the figure">≈ </span>' if row["read_off"] else ""
    return mark + escape(with_unit(row["paper"], row["unit"]))


def _ours(row: Content) -> str:
    if row["mean"] is None:
        return "–"
    interval = row["ci95"]
    shown = f'<span class="ci">[{number(interval[0])}, {number(interval[1])}]</span>' if interval else ""
    return escape(number(row["mean"])) + shown


def _claim(row: Content, letters: Mapping[str, str]) -> str:
    marked = "".join(f" [{letters[text]}]" for text in remarks(row))
    if not row["wanted"]:
        return marked
    why = f"; {row['why']}" if row["why"] else ""
    return f'{escape(row["verdict"])}{marked}<span class="diff">{escape(row["wanted"] + why)}</span>'


def _picture(each: Content, folder: Path) -> str:
    data = base64.b64encode((folder / each["figure"]).read_bytes()).decode("ascii")
    alt = escape(f"{each['title']}: the paper's values and ours")
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def _id(each: Content) -> str:
    return escape(f"{each['paper']}-{each['experiment']}")
