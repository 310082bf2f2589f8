"""Keep the values of `schedbed reproduce` as result files, and render them as Markdown.

A file keeps only measurements: key, mean, interval and number of repeats. The paper's value, the criterion
and the kind of a claim are read from the present paper.yaml when a page is rendered. The verdict follows from
them, so that pages and code cannot disagree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from schedbed.deploy.papers import paper_file, terminal
from schedbed.deploy.papers.catalogue import PAPERS
from schedbed.deploy.papers.paper_file import KINDS
from schedbed.deploy.papers.reproduce import RESULTS
from schedbed.deploy.papers.terminal import counted, marks, without_task
from schedbed.deploy.papers.verdict import FAILS, Row, judge_kept
from tests.bench.figures import rounded
from tests.pages import causes

NOTES = "notes.yaml"
MACHINES = {"sim": "simulated", "process": "live, in processes", "docker": "live, in containers"}
DIGITS = 6  # a page shows three

Content = Mapping[str, Any]


def keep(reproduced: Path, folder: Path) -> None:
    """Write a result file for each paper into `folder`/MACHINES, from the results.json in `reproduced`.

    Results of experiments that were not run this time stay, unless paper.yaml no longer has the experiment.
    Raise ValueError if an experiment is broken.
    """
    content: Content = json.loads((reproduced / RESULTS).read_text(encoding="utf-8"))
    broken = [each["experiment"] for each in content["experiments"] if each["state"] != "done"]
    if broken:
        raise ValueError(f"{reproduced}: broken experiments: {', '.join(broken)}")
    target = folder / content["machines"]
    target.mkdir(parents=True, exist_ok=True)
    about = {key: content[key] for key in ("machines", "seed", "versions", "host")}
    date = content["wall_start"][:10]
    for paper in content["papers"]:
        path = target / f"{paper}.json"
        older = json.loads(path.read_text(encoding="utf-8"))["experiments"] if path.exists() else []
        known = paper_file.load(paper).experiments
        found = {each["experiment"]: each for each in older if each["experiment"] in known}
        found |= {
            each["experiment"]: _compact(each, date)
            for each in content["experiments"]
            if each["paper"] == paper
        }
        kept = {**about, "experiments": list(found.values())}
        path.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def tables(folder: Path) -> dict[str, str]:
    """Return a dictionary from places in the pages of all papers to their Markdown text.

    The places are the counts, the causes and the headline values.
    """
    kept = _kept(folder)
    rows = rows_of(kept["sim"])
    by_paper = {name: [key for key in rows if key.startswith(f"{name}/")] for name in kept["sim"]}
    return {
        "counts": _counts(kept),
        "causes": causes.table(by_paper, rows, causes.load(folder, rows)),
        "headlines": _headlines(kept["sim"], _notes(folder)["headlines"]),
    }


def papers(folder: Path) -> dict[str, str]:
    """Return a dictionary from papers to their results on each kind of machines as Markdown."""
    kept, notes = _kept(folder), _notes(folder)
    rows = rows_of(kept["sim"])
    why: Why = rows, causes.load(folder, rows)
    return {
        name: "\n".join(
            [
                _about(name),
                *(
                    _results(name, machines, papers[name], notes.get(machines, {}).get(name, {}), why)
                    for machines, papers in kept.items()
                    if name in papers
                ),
            ]
        )
        for name in kept["sim"]
    }


def _kept(folder: Path) -> dict[str, dict[str, Content]]:
    return {machines: load(folder / machines) for machines in MACHINES if (folder / machines).is_dir()}


def _notes(folder: Path) -> Any:
    return yaml.safe_load((folder / NOTES).read_text(encoding="utf-8"))


def rows_of(papers: Mapping[str, Content]) -> dict[str, Row]:
    """Return the judged results of papers, a dictionary with keys of the form PAPER/EXPERIMENT/VALUE."""
    return {
        f"{paper}/{each['experiment']}/{row.key}": row
        for paper, content in papers.items()
        for each in content["experiments"]
        for row in judged(paper, each)
    }


def load(folder: Path) -> dict[str, Content]:
    """Return a dictionary from papers to the contents of their result files in `folder`, in the order of the
    catalogue.
    """
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    }
    return {name: found[name] for name in PAPERS if name in found}


def judged(paper: str, each: Content) -> list[Row]:
    """Return the kept values of the experiment `each`, judged by the present paper.yaml of `paper`.

    Raise ValueError for a value that paper.yaml does not have.
    """
    said = paper_file.load(paper).experiments.get(each["experiment"])
    unknown = [row["key"] for row in each["rows"] if said is None or row["key"] not in said.values]
    if said is None or unknown:
        raise ValueError(f"{paper}/{each['experiment']}: paper.yaml has no {', '.join(unknown)}")
    return [
        judge_kept(
            row["key"],
            said.values[row["key"]],
            said.where,
            mean=_tuple(row["mean"]),
            ci95=_tuple(row["ci95"]),
            exact=row["repeats"] == 0,
        )
        for row in each["rows"]
    ]


def _compact(each: Content, date: str) -> dict[str, Any]:
    rows = [
        {
            "key": row["key"],
            "mean": rounded(row["mean"], DIGITS),
            "ci95": rounded(row["ci95"], DIGITS),
            "repeats": len(row["repeats"]),
        }
        for row in each["rows"]
    ]
    return {"experiment": each["experiment"], "date": date, "notes": each["notes"], "rows": rows}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def tally(rows: Iterable[Row]) -> Counter[str]:
    """Return the number of claims for each verdict: how many hold, do not hold, and are open."""
    return Counter(row.verdict for row in rows if row.wanted)


def _counts(kept: Mapping[str, Mapping[str, Content]]) -> str:
    """Return a Markdown table for each kind of machines, with a row for each paper and a column for each kind
    of claim.
    """
    made: list[str] = []
    for machines, papers in kept.items():
        judgments = {
            name: [row.to_json() for each in paper["experiments"] for row in judged(name, each)]
            for name, paper in papers.items()
        }
        lines = [
            f"| {MACHINES[machines]} | {' | '.join(KINDS)} | run no task |",
            f"|---|{'---|' * (len(KINDS) + 1)}",
            *(_count_row(name, rows) for name, rows in judgments.items()),
            _count_row("**all**", [row for rows in judgments.values() for row in rows]),
        ]
        made.append("\n".join(lines) + "\n")
    return "\n".join(made)


def _count_row(name: str, rows: Sequence[Content]) -> str:
    counts, idle = counted(rows), sum(without_task(rows).values())
    cells = (" / ".join(map(str, counts[kind])) if kind in counts else "-" for kind in KINDS)
    return f"| {name} | {' | '.join(cells)} | {idle or '-'} |"


Why = tuple[causes.Rows, causes.Checked]
"""Rows by name, and the causes of those that do not hold."""


def _about(name: str) -> str:
    """Return the head of a paper's page."""
    said = paper_file.load(name)
    return f"""# {name}: {said.title}

{said.authors}. {said.published}.

[What "holds" means](../claims.md#what-holds-means), [kinds of claims](../claims.md#kinds-of-claims),
[criteria](../claims.md#criteria). [All papers](../../reproduce.md).
"""


def _results(name: str, machines: str, paper: Content, notes: Mapping[str, str], why: Why) -> str:
    """Return the Markdown section of a paper's results on a kind of machines, with a table for each
    experiment.

    `notes` maps experiments to texts that follow their tables. `why` has the simulated results and the causes
    of claims that do not hold.
    """
    known = {each["experiment"]: each for each in paper["experiments"]}
    unknown = set(notes) - set(known)
    if unknown:
        raise ValueError(f"{NOTES}: {name} has no experiment {', '.join(sorted(unknown))}")
    versions = ", ".join(f"{each} {version}" for each, version in paper["versions"].items())
    host = f"{paper['host']['cores']} cores, {paper['host']['system']}"
    head = (
        f"## {MACHINES[machines].capitalize()}\n\nSeed {paper['seed']}. Host: {host}. Versions: {versions}.\n"
    )
    mine = why if machines == "sim" else ({}, {})
    return "\n".join([head, *(_experiment(name, each, notes, mine) for each in known.values())])


def _experiment(paper: str, each: Content, notes: Mapping[str, str], why: Why) -> str:
    rows = judged(paper, each)
    name = each["experiment"]
    about = paper_file.load(paper).experiments[name]
    letters = marks(row.to_json() for row in rows)
    lines = [f"### {name}: {about.title}\n", f"{about.where}; run on {each['date']}.\n", *_head("value")]
    lines += [_row(row, kept, row.what, letters) for row, kept in zip(rows, each["rows"], strict=True)]
    beside = [f"[{letter}] {text}" for text, letter in letters.items()]
    keys = [key for key in (f"{paper}/{name}/{row.key}" for row in rows) if key in why[0]]
    note = [notes[name].strip()] if name in notes else []
    texts = [*beside, *each["notes"], *note, *causes.texts(keys, *why)]
    return "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in texts)


def _headlines(papers: Mapping[str, Content], names: Sequence[str]) -> str:
    """Return a Markdown table of the values `names`, each PAPER/EXPERIMENT/VALUE.

    Raise KeyError for an unknown name.
    """
    found = {
        f"{paper}/{each['experiment']}/{row.key}": (row, kept)
        for paper, content in papers.items()
        for each in content["experiments"]
        for row, kept in zip(judged(paper, each), each["rows"], strict=True)
    }
    rows = [_row(*found[name], f"{name.rpartition('/')[0]}: {found[name][0].what}", {}) for name in names]
    return "\n".join([*_head("paper, experiment"), *rows]) + "\n"


def _head(first: str) -> tuple[str, str]:
    return (
        f"| {first} | kind | paper | ours [95%] | repeats | holds when | verdict |",
        "|---|---|---|---|---|---|---|",
    )


def _row(row: Row, kept: Content, what: str, letters: Mapping[str, str]) -> str:
    verdict = f"**{row.verdict}**" if row.verdict == FAILS else row.verdict
    marked = terminal.marked(row, letters) if letters else ""
    cells = (
        what.replace("|", "\\|"),
        terminal.kind_of(row),
        terminal.paper(row),
        terminal.ours(row),
        str(kept["repeats"] or "-"),
        row.wanted,
        f"{verdict}{marked}".strip(),
    )
    return f"| {' | '.join(cells)} |"
