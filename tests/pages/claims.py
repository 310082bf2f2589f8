"""Keep the values of `schedbed reproduce` as result files, and render them as Markdown.

A file keeps only measurements: the number of each repeat, by seed. The paper's value, the criterion and the
kind of a claim are read from the present paper.yaml when a page is rendered. The words follow from them, so
that pages and code cannot disagree.
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
from schedbed.deploy.papers.experiment import SIM_REPEATS
from schedbed.deploy.papers.page import size_of
from schedbed.deploy.papers.paper_file import KINDS
from schedbed.deploy.papers.reproduce import RESULTS
from schedbed.deploy.papers.terminal import counted, marks, without_task
from schedbed.deploy.papers.verdict import CONTRADICTED, HOLDS, OPEN, WORDS, Exact, Row, judge, judge_kept
from tests.bench.figures import rounded

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
    about = {key: content[key] for key in ("machines", "versions", "host")}
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
        write(path, {**about, "experiments": list(found.values())})


def write(path: Path, kept: Content) -> None:
    """Write a result file, with a line for each row."""
    rows = [row for each in kept["experiments"] for row in each["rows"]]
    marked = {
        **kept,
        "experiments": [
            {**each, "rows": [f"@{id(row)}" for row in each["rows"]]} for each in kept["experiments"]
        ],
    }
    text = json.dumps(marked, indent=1, allow_nan=False)
    for row in rows:
        text = text.replace(f'"@{id(row)}"', json.dumps(row, allow_nan=False))
    path.write_text(text + "\n", encoding="utf-8")


def tables(folder: Path) -> dict[str, str]:
    """Return a dictionary from places in the pages of all papers to their Markdown text."""
    kept = _kept(folder)
    rows = {machines: rows_of(papers) for machines, papers in kept.items()}
    return {
        "counts": _counts(kept),
        "summary": _summary(rows),
        "words": _words(kept["sim"], rows["sim"]),
        "headlines": _headlines(rows, _notes(folder)["headlines"]),
        "fewer": _fewer(kept["sim"]),
    }


def papers(folder: Path) -> dict[str, str]:
    """Return a dictionary from papers to their results on each kind of machines as Markdown."""
    kept, notes = _kept(folder), _notes(folder)
    return {
        name: "\n".join(
            [
                _about(name),
                *(
                    _results(name, machines, papers[name], notes.get(machines, {}).get(name, {}))
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
    meets = paper_file.load(paper).meets(each["experiment"], each["size"])
    return [_judged(row, said.values[row["key"]], said.where, meets) for row in each["rows"]]


def _judged(row: Content, said: paper_file.Value, where: str, meets: bool) -> Row:
    """Return a kept value as a row. Live values of before 2026-11-30 have intervals without their repeats."""
    if "samples" in row:
        return judge(row["key"], said, where, row["samples"], meets=meets)
    if "ci95" not in row:
        return judge(row["key"], said, where, Exact(value=_tuple(row["mean"])))
    return judge_kept(row["key"], said, where, row["mean"], [_tuple(row["ci95"])], meets=meets)


def _compact(each: Content, date: str) -> dict[str, Any]:
    """Return what is kept of an experiment in results.json."""
    rows = [
        {"key": row["key"]}
        | (
            {"samples": rounded(row["samples"], DIGITS)}
            if row["samples"]
            else {"mean": rounded(row["mean"], DIGITS)}
        )
        for row in each["rows"]
    ]
    same = {key: each[key] for key in ("experiment", "seeds", "repeats", "size", "notes")}
    return {**same, "date": date, "rows": rows}


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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


def outcomes(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return the rows that tell whether a paper's finding was reproduced."""
    return {key: row for key, row in rows.items() if row.kind == "outcome" and row.wanted}


def _summary(rows: Mapping[str, Mapping[str, Row]]) -> str:
    """Return the sentence on top of the page: how many outcomes hold, and how many are open."""
    told = []
    for machines, mine in rows.items():
        counts = Counter(row.verdict for row in outcomes(mine).values())
        told.append(
            f"{MACHINES[machines].capitalize()}, **{counts[HOLDS]} of {sum(counts.values())} outcomes hold, "
            f"{counts[OPEN]} are not reproduced and so open, {counts[CONTRADICTED]} are contradicted**."
        )
    return " ".join(told)


def _words(papers: Iterable[str], rows: Mapping[str, Row]) -> str:
    """Return a Markdown table of simulated outcomes by paper and word, with the reasons of those that are open."""
    reasons = ("outside", "interval undecided", "seeds disagree")
    heads = (*WORDS, *(f"open: {reason}" for reason in reasons))
    lines = [f"| simulated outcomes | all | {' | '.join(heads)} |", f"|---|{'---|' * (len(heads) + 1)}"]
    every = outcomes(rows)
    for name in (*papers, ""):
        mine = [row for key, row in every.items() if key.startswith(f"{name}/" if name else "")]
        words = Counter(row.verdict for row in mine)
        whys = Counter(row.why for row in mine if row.verdict == OPEN)
        cells = [len(mine), *(words[word] for word in WORDS), *(whys[reason] for reason in reasons)]
        title = f"[{name}](results/papers/{name}.md)" if name else "**all**"
        lines.append(f"| {title} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _fewer(papers: Mapping[str, Content]) -> str:
    """Return a sentence that lists the experiments with fewer repeats than `SIM_REPEATS` for each seed."""
    found = [
        f"{paper}/{each['experiment']} {each['repeats']}"
        for paper, content in papers.items()
        for each in content["experiments"]
        if 1 < each["repeats"] < SIM_REPEATS
    ]
    return f"Experiments with fewer than {SIM_REPEATS} repeats for each seed: {', '.join(found) or 'none'}."


def _about(name: str) -> str:
    """Return the head of a paper's page."""
    said = paper_file.load(name)
    return f"""# {name}: {said.title}

{said.authors}. {said.published}.

[The rule](../claims.md#the-rule), [kinds of claims](../claims.md#kinds-of-claims),
[criteria](../claims.md#criteria). [All papers](../../reproduce.md).
"""


def _results(name: str, machines: str, paper: Content, notes: Mapping[str, str]) -> str:
    """Return the Markdown section of a paper's results on a kind of machines, with a table for each
    experiment.

    `notes` maps experiments to texts that follow their tables.
    """
    known = {each["experiment"]: each for each in paper["experiments"]}
    unknown = set(notes) - set(known)
    if unknown:
        raise ValueError(f"{NOTES}: {name} has no experiment {', '.join(sorted(unknown))}")
    versions = ", ".join(f"{each} {version}" for each, version in paper["versions"].items())
    host = f"{paper['host']['cores']} cores, {paper['host']['system']}"
    head = f"## {MACHINES[machines].capitalize()}\n\nHost: {host}. Versions: {versions}.\n"
    return "\n".join([head, *(_experiment(name, each, notes) for each in known.values())])


def _experiment(paper: str, each: Content, notes: Mapping[str, str]) -> str:
    rows = judged(paper, each)
    name = each["experiment"]
    said = paper_file.load(paper)
    about = said.experiments[name]
    letters = marks(row.to_json() for row in rows)
    seeds = f"seeds {', '.join(map(str, each['seeds']))}, {each['repeats']} repeats each"
    lines = [f"### {name}: {about.title}\n", f"{about.where}; run on {each['date']}, {seeds}.\n"]
    lines += [*_head("value"), *(_row(row, letters) for row in rows)]
    beside = [f"[{letter}] {text}" for text, letter in letters.items()]
    size = size_of(
        {"printed": about.printed.model_dump(), "differs": said.unlike(name), "size": each["size"]}
    )
    note = [notes[name].strip()] if name in notes else []
    texts = [*([f"Set-up: {size}"] if size else []), about.setup.strip(), *beside, *each["notes"], *note]
    return "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in texts)


def _headlines(rows: Mapping[str, Mapping[str, Row]], named: Mapping[str, str | None]) -> str:
    """Return a Markdown table of the main claims, simulated and live.

    `named` maps a value PAPER/EXPERIMENT/VALUE to the value that is its live counterpart, or None. A value that is
    not simulated is its own. Raise KeyError for an unknown name.
    """
    lines = [
        "| paper: claim | paper | simulated [95%] | live [95%] | word | why |",
        "|---|---|---|---|---|---|",
    ]
    for name, beside in named.items():
        simulated = rows["sim"].get(name)
        paper, experiment, _ = name.split("/")
        live = rows["process"][beside] if beside else None
        row = simulated or rows["process"][name]
        differs = paper_file.load(paper).unlike(experiment)
        why = "" if row.verdict == HOLDS else "; ".join(filter(None, (row.why, *differs)))
        cells = (
            f"[{paper}](results/papers/{paper}.md)/{experiment}: {row.what}",
            terminal.paper(row),
            "-" if simulated is None else terminal.ours(simulated),
            "-" if live is None else f"{terminal.ours(live)}, {live.verdict}",
            f"**{row.verdict}**",
            why,
        )
        safe = (cell.replace("|", "\\|") for cell in cells)
        lines.append(f"| {' | '.join(safe)} |")
    return "\n".join(lines) + "\n"


def _head(first: str) -> tuple[str, str]:
    return (
        f"| {first} | kind | paper | ours [95%] | by seed | holds when | word |",
        "|---|---|---|---|---|---|---|",
    )


def _row(row: Row, letters: Mapping[str, str]) -> str:
    means = [terminal.number(sum(known) / len(known)) for each in row.samples if (known := _numbers(each))]
    why = f" ({row.why})" if row.why else ""
    verdict = f"**{row.verdict}**" if row.verdict == CONTRADICTED else row.verdict
    cells = (
        row.what.replace("|", "\\|"),
        terminal.kind_of(row),
        terminal.paper(row),
        terminal.ours(row),
        ", ".join(means) or "-",
        row.wanted,
        f"{verdict}{why}{terminal.marked(row, letters)}".strip(),
    )
    return f"| {' | '.join(cells)} |"


def _numbers(repeats: Sequence[float | None]) -> list[float]:
    return [each for each in repeats if each is not None]
