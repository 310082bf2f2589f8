"""Keep the values of `schedbed reproduce` as result files, and render them as Markdown tables.

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
from schedbed.deploy.papers.terminal import VERDICTS, counted, marks, without_task
from schedbed.deploy.papers.verdict import FAILS, Row, judge_kept
from tests.bench.figures import rounded
from tests.pages import causes

NOTES = "notes.yaml"
CARRIED = "carried"
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
    (target / f"{CARRIED}.json").unlink(missing_ok=True)
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
    """Return a dictionary from the names of places in docs/reproduce.md to their Markdown text.

    The places are the counts, the causes, the headline values, and the results of each kind of machines.
    """
    notes = yaml.safe_load((folder / NOTES).read_text(encoding="utf-8"))
    kept = {machines: load(folder / machines) for machines in MACHINES if (folder / machines).is_dir()}
    rows = rows_of(kept["sim"])
    checked = causes.load(folder, rows)
    by_paper = {name: [key for key in rows if key.startswith(f"{name}/")] for name in kept["sim"]}
    made = {
        "counts": _counts(kept),
        "causes": causes.table(by_paper, rows, checked),
        "headlines": _headlines(kept["sim"], notes["headlines"]),
    }
    for machines, papers in kept.items():
        mine = notes.get(machines, {})
        why = (rows, checked) if machines == "sim" else ({}, {})
        made[machines] = "\n".join(
            _paper(name, paper, mine.get(name, {}), why) for name, paper in papers.items()
        )
    return made


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
    return {name: found[name] for name in (CARRIED, *PAPERS) if name in found}


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
        lines = [
            f"| {MACHINES[machines]} | {' | '.join(KINDS)} | run no task |",
            f"|---|{'---|' * (len(KINDS) + 1)}",
        ]
        by_paper = {name: _counted(name, paper) for name, paper in papers.items()}
        total = {
            kind: [sum(each) for each in zip(*column, strict=True)] for kind, column in _columns(by_paper)
        }
        if len(by_paper) > 1 or CARRIED not in by_paper:
            lines += [_count_row(name, counts, idle) for name, (counts, idle) in by_paper.items()]
        lines.append(_count_row("**all**", total, sum(idle for _, idle in by_paper.values())))
        made.append("\n".join(lines) + "\n")
    return "\n".join(made)


Counted = tuple[Mapping[str, Sequence[int]], int]


def _counted(name: str, paper: Content) -> Counted:
    """Return a paper's number of claims of each kind by verdict, and how many claims need no task to run."""
    if "counted" in paper:
        return paper["counted"], paper["no_task"]
    rows = [row.to_json() for each in paper["experiments"] for row in judged(name, each)]
    return counted(rows), sum(without_task(rows).values())  # pyright: ignore[reportReturnType]


def _columns(by_paper: Mapping[str, Counted]) -> Iterable[tuple[str, list[Sequence[int]]]]:
    nothing = [0] * len(VERDICTS)
    return ((kind, [counts.get(kind, nothing) for counts, _ in by_paper.values()]) for kind in KINDS)


def _count_row(name: str, counts: Mapping[str, Sequence[int]], idle: int) -> str:
    cells = (" / ".join(map(str, counts[kind])) if any(counts.get(kind, ())) else "-" for kind in KINDS)
    return f"| {name} | {' | '.join(cells)} | {idle or '-'} |"


Why = tuple[causes.Rows, causes.Checked]
"""Rows by name, and the causes of those that do not hold."""


def _paper(name: str, paper: Content, notes: Mapping[str, str], why: Why) -> str:
    """Return the Markdown section of a paper: a heading, then a table for each experiment.

    `notes` maps experiments to texts that follow their tables. `why` has the results and the causes of claims
    that do not hold.
    """
    title = paper["title"] if name == CARRIED else f"{name}: {paper_file.load(name).title}"
    head = f"### {title}\n\n{_provenance(name, paper)}\n"
    known = {_label(name, each): each for each in paper["experiments"]}
    unknown = set(notes) - set(known)
    if unknown:
        raise ValueError(f"{NOTES}: {name} has no experiment {', '.join(sorted(unknown))}")
    return "\n".join(
        [
            head,
            *(
                _experiment(label, _paper_of(name, each), each, notes.get(label, ""), why)
                for label, each in known.items()
            ),
        ]
    )


def _label(name: str, each: Content) -> str:
    """Return the heading of an experiment, with the paper's name if the results are carried over from several
    papers.
    """
    return f"{each['paper']}/{each['experiment']}" if name == CARRIED else each["experiment"]


def _paper_of(name: str, each: Content) -> str:
    return each["paper"] if name == CARRIED else name


def _provenance(name: str, paper: Content) -> str:
    if "carried_over" in paper:
        return f"Carried over from {paper['carried_over']}."
    said = paper_file.load(name)
    versions = ", ".join(f"{each} {version}" for each, version in paper["versions"].items())
    host = f"{paper['host']['cores']} cores, {paper['host']['system']}"
    return f"{said.authors}. {said.published}.\n\nSeed {paper['seed']}. Host: {host}. Versions: {versions}."


def _experiment(label: str, paper: str, each: Content, note: str, why: Why) -> str:
    rows = judged(paper, each)
    about = paper_file.load(paper).experiments[each["experiment"]]
    letters = marks(row.to_json() for row in rows)
    when = f"; run on {each['date']}" if "date" in each else ""
    lines = [f"#### {label}: {about.title}\n", f"{about.where}{when}.\n", *_head("value")]
    lines += [_row(row, kept, row.what, letters) for row, kept in zip(rows, each["rows"], strict=True)]
    beside = [f"[{letter}] {text}" for text, letter in letters.items()]
    keys = [key for key in (f"{paper}/{each['experiment']}/{row.key}" for row in rows) if key in why[0]]
    texts = [*beside, *each["notes"], *([note.strip()] if note else []), *causes.texts(keys, *why)]
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
    repeats = {None: "not kept", 0: "-"}.get(kept["repeats"], str(kept["repeats"]))
    marked = terminal.marked(row, letters) if letters else ""
    cells = (
        what.replace("|", "\\|"),
        terminal.kind_of(row),
        terminal.paper(row),
        terminal.ours(row),
        repeats,
        row.wanted,
        f"{verdict}{marked}".strip(),
    )
    return f"| {' | '.join(cells)} |"
