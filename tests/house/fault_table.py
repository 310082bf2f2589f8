"""Write the table of docs/faults.md from `cluster.faults`: `python -m tests.house.fault_table`."""

from __future__ import annotations

from pathlib import Path

from schedbed.cluster.faults import KINDS, ONCE, RESTART, STATE, FaultKind

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
BEGIN, END = "<!-- fault kinds: begin -->", "<!-- fault kinds: end -->"
LASTS = {
    STATE: "its `for`, or to the run's end",
    RESTART: "until the process is back, with `for` at least that long",
    ONCE: "over at once",
}


def rendered() -> str:
    """Return the table as Markdown, with a row for each kind of fault."""
    head = ["| kind | an entry | what happens | lasts | drawn |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(kind) for kind in KINDS.values())])


def _row(kind: FaultKind) -> str:
    names: dict[str, list[str]] = {}
    for parameter in kind.parameters:
        names.setdefault(parameter.doc, []).append(f"`{parameter.name}`")
    about = "; ".join([kind.about, *(f"{', '.join(each)}: {doc}" for doc, each in names.items())])
    others = [", ".join(f"{key}: {word}" for key, word in s.items()) for s in kind.spellings[1:]]
    entry = " or ".join(f"`{text}`" for text in (kind.example, *others))
    drawn = "no" if kind.draw is None else "yes"
    return f"| `{kind.name}` | {entry} | {about} | {LASTS[kind.duration]} | {drawn} |"


def on_page() -> str:
    """Return the table that docs/faults.md has now."""
    return PAGE.read_text().partition(f"{BEGIN}\n")[2].partition(f"\n{END}")[0]


def write() -> None:
    """Replace the table in docs/faults.md."""
    before, _, rest = PAGE.read_text().partition(f"{BEGIN}\n")
    PAGE.write_text(f"{before}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    write()
