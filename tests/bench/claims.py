"""Keep the claims of `schedbed reproduce` as result files, and render these files as markdown tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from schedbed.deploy.papers import terminal
from schedbed.deploy.papers.catalogue import PAPERS
from schedbed.deploy.papers.reproduce import RESULTS
from schedbed.deploy.papers.verdict import FAILS, HOLDS, OPEN, Row

NOTES = "notes.yaml"
CARRIED = "carried"
MACHINES = {"sim": "simulated", "process": "live, in processes", "docker": "live, in containers"}
OF_ROW = ("key", "what", "unit", "where", "paper", "read_off", "wanted", "mean", "ci95", "verdict")
DIGITS = 6

Content = Mapping[str, Any]


def keep(reproduced: Path, folder: Path) -> None:
    """Write a result file a paper into `folder`/MACHINES from the results.json in `reproduced`.

    An experiment that was not run again stays as it was. ValueError when an experiment is broken.
    """
    content: Content = json.loads((reproduced / RESULTS).read_text(encoding="utf-8"))
    broken = [each["experiment"] for each in content["experiments"] if each["state"] != "done"]
    if broken:
        raise ValueError(f"{reproduced}: broken experiments: {', '.join(broken)}")
    target = folder / content["machines"]
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{CARRIED}.json").unlink(missing_ok=True)
    about = {key: content[key] for key in ("machines", "seed", "versions", "host")}
    for paper, said in content["papers"].items():
        path = target / f"{paper}.json"
        older = json.loads(path.read_text(encoding="utf-8"))["experiments"] if path.exists() else []
        found = {each["experiment"]: each for each in older}
        found |= {
            each["experiment"]: _compact(each) for each in content["experiments"] if each["paper"] == paper
        }
        kept = {**about, "date": content["wall_start"][:10], **said, "experiments": list(found.values())}
        path.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def tables(folder: Path) -> dict[str, str]:
    """Return the markdown by place: counts, headlines, and each kind of machines with its papers."""
    notes = yaml.safe_load((folder / NOTES).read_text(encoding="utf-8"))
    kept = {machines: load(folder / machines) for machines in MACHINES if (folder / machines).is_dir()}
    made = {"counts": _counts(kept), "headlines": _headlines(kept["sim"], notes["headlines"])}
    for machines, papers in kept.items():
        mine = notes.get(machines, {})
        made[machines] = "\n".join(_paper(name, paper, mine.get(name, {})) for name, paper in papers.items())
    return made


def load(folder: Path) -> dict[str, Content]:
    """Return the result files of one kind of machines by paper, in the order of the catalogue."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    }
    return {name: found[name] for name in (CARRIED, *PAPERS) if name in found}


def _compact(each: Content) -> dict[str, Any]:
    rows = [{key: _rounded(row[key]) for key in OF_ROW} for row in each["rows"]]
    kept = {key: each[key] for key in ("experiment", "title", "where", "repeats", "notes")}
    return {**kept, "rows": rows}


def _rounded(value: Any) -> Any:
    """Return floats with six digits, within lists as well: a page shows three."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def tally(experiments: Sequence[Content]) -> Counter[str]:
    """Return how many claims hold, do not hold and are open."""
    return Counter(row["verdict"] for each in experiments for row in each["rows"] if row["wanted"])


def _counts(kept: Mapping[str, Mapping[str, Content]]) -> str:
    lines = ["| papers | claims | hold | do not hold | open |", "|---|---|---|---|---|"]
    for machines, papers in kept.items():
        total: Counter[str] = Counter()
        for name, paper in papers.items():
            counts = Counter(paper["counted"]) if "counted" in paper else tally(paper["experiments"])
            total += counts
            if name != CARRIED:
                lines.append(_count_row(f"{name}, {MACHINES[machines]}", counts))
        lines.append(_count_row(f"**all, {MACHINES[machines]}**", total))
    return "\n".join(lines) + "\n"


def _count_row(name: str, counts: Counter[str]) -> str:
    parts = (counts.total(), counts[HOLDS], counts[FAILS], counts[OPEN])
    return f"| {name} | {' | '.join(map(str, parts))} |"


def _paper(name: str, paper: Content, notes: Mapping[str, str]) -> str:
    """Return a paper's heading and its experiments; a note stands under the table that it explains."""
    title = paper["title"] if name == CARRIED else f"{name}: {paper['title']}"
    head = f"### {title}\n\n{_provenance(paper)}\n"
    unknown = set(notes) - {each["experiment"] for each in paper["experiments"]}
    if unknown:
        raise ValueError(f"{NOTES}: {name} has no experiment {', '.join(sorted(unknown))}")
    return "\n".join(
        [head, *(_experiment(each, notes.get(each["experiment"], "")) for each in paper["experiments"])]
    )


def _provenance(paper: Content) -> str:
    if "carried_over" in paper:
        return f"Carried over from {paper['carried_over']}."
    versions = ", ".join(f"{name} {version}" for name, version in paper["versions"].items())
    host = f"{paper['host']['cores']} cores, {paper['host']['system']}"
    return (
        f"{paper['authors']}. {paper['published']}.\n\n"
        f"Run on {paper['date']} with seed {paper['seed']}. Host: {host}. Versions: {versions}."
    )


def _experiment(each: Content, note: str) -> str:
    count = each["repeats"]
    repeats = "" if count is None else f"; {count} repeat{'' if count == 1 else 's'}"
    lines = [f"#### {each['experiment']}: {each['title']}\n", f"{each['where']}{repeats}.\n", *_head("value")]
    lines += [_row(row, row["what"]) for row in each["rows"]]
    texts = [*each["notes"], *([note.strip()] if note else [])]
    return "\n".join(lines) + "\n" + "".join(f"\n{text}\n" for text in texts)


def _headlines(papers: Mapping[str, Content], names: Sequence[str]) -> str:
    """Return the table of some values, PAPER/EXPERIMENT/VALUE; KeyError for a name that is not there."""
    found = {
        f"{paper}/{each['experiment']}/{row['key']}": row
        for paper, content in papers.items()
        for each in content["experiments"]
        for row in each["rows"]
    }
    rows = [_row(found[name], f"{name.rpartition('/')[0]}: {found[name]['what']}") for name in names]
    return "\n".join([*_head("paper, experiment"), *rows]) + "\n"


def _head(first: str) -> tuple[str, str]:
    return f"| {first} | paper | ours [95%] | holds when | verdict |", "|---|---|---|---|---|"


def _row(kept: Content, what: str) -> str:
    row = Row(**{**kept, "repeats": ()})
    verdict = f"**{row.verdict}**" if row.verdict == FAILS else row.verdict
    cells = (what.replace("|", "\\|"), terminal.paper(row), terminal.ours(row), row.wanted, verdict)
    return f"| {' | '.join(cells)} |"
