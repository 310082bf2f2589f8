"""Simulate the scenarios of docs/policies.md that show when a policy or a replication scheme pays.

    python -m tests.pages.when_pays [CASE ...] [--out docs/results/when]

Then `python -m tests.bench.pages` writes the tables. All runs are simulated, so that any host gives the same figures.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schedbed
from schedbed.deploy.results import stats
from tests.bench.figures import PIVOT, ROOT, Figure, ResultFile, host_line, pivoted, show, today

KEPT = ROOT / "docs" / "results" / "when"
WHEN = "examples/when"
METRICS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "makespan, s": (("makespan_s",), 1.0),
    "completion, mean, s": (("completion_s", "mean"), 1.0),
    "completion, p95, s": (("completion_s", "p95"), 1.0),
    "slowdown, mean": (("slowdown", "mean"), 1.0),
    "late jobs": (("deadlines", "late"), 1.0),
    "node-local maps, %": (("locality", "tasks", "node"), 100.0),
    "CPU in use, %": (("utilisation", "cpu"), 100.0),
    "wasted CPU, core-s": (("waste_cpu_s",), 1.0),
}
"""By the name of a row: the keys of the figure in summary.json, and the factor to the row's unit."""
MADE = "additional replicas"


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario to simulate, the policies that are the columns of its table, and the table's rows.

    With `schemes`, a dictionary from names to values of `blocks.dynamic`, the schemes are the columns, under
    one policy.
    """

    scenario: str
    policies: tuple[str, ...]
    rows: tuple[str, ...]
    repeats: int
    schemes: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """Return the commands that simulate the case, one for each scheme."""
        chosen = " ".join(f"--policy {name}" for name in self.policies)
        plain = f"schedbed run {self.scenario} --machines sim --repeats {self.repeats} {chosen}"
        sets = [f"{plain} --set {shlex.quote(f'blocks.dynamic={value}')}" for value in self.schemes.values()]
        return "; ".join(sets) or plain


CASES: Mapping[str, Case] = {
    "chapter3": Case(
        "quickstart",
        ("fifo", "fair", "hod", "dp", "lsps", "pd", "coshh"),
        (
            "makespan, s",
            "completion, mean, s",
            "slowdown, mean",
            "late jobs",
            "CPU in use, %",
            "wasted CPU, core-s",
        ),
        repeats=5,
    ),
    "lsap": Case(
        "quickstart",
        ("fifo", "lsap", "fair", "delay", "lsap-fair"),
        ("node-local maps, %", "makespan, s", "completion, mean, s"),
        repeats=5,
    ),
    "balancedpool": Case(
        "quickstart",
        ("fifo", "balancedpool"),
        ("makespan, s", "completion, mean, s", "completion, p95, s"),
        repeats=5,
    ),
    "mrcp": Case(
        f"{WHEN}/mrcp.yaml",
        ("mrcp", "fair", "pd", "aria", "fifo"),
        ("late jobs", "completion, mean, s", "makespan, s"),
        repeats=3,
    ),
    "mimp": Case(
        f"{WHEN}/mimp.yaml",
        ("mimp", "aria", "pd", "fifo", "fair"),
        ("late jobs", "completion, mean, s", "slowdown, mean", "makespan, s"),
        repeats=10,
    ),
    "popular": Case(
        f"{WHEN}/popular.yaml",
        ("fifo",),
        ("node-local maps, %", "completion, mean, s", MADE),
        repeats=10,
        schemes={
            "none": "none",
            "dare": "dare",
            "scarlett": "{scarlett: {epoch: 30s, budget: 0.9}}",
            "cdrm": "{cdrm: {epoch: 30s}}",
        },
    ),
}


def simulate(case: Case) -> list[Figure]:
    """Return the figures of a case, named `ROW | COLUMN`, with a value for each repeat."""
    figures: list[Figure] = []
    for scheme, value in (case.schemes or {"": ""}).items():
        sets = (f"blocks.dynamic={value}",) if scheme else ()
        scenario = ROOT / case.scenario if case.scenario.endswith(".yaml") else case.scenario
        result = schedbed.run(
            scenario, policies=case.policies, machines="sim", repeats=case.repeats, sets=sets
        )
        found = dict(zip(case.policies, result.summary["policies"].values(), strict=True))
        made = _additional(result, case.repeats) if MADE in case.rows else []
        for row in case.rows:
            for policy, figures_of in found.items():
                values = made if row == MADE else _values(figures_of, row)
                figures.append(Figure(name=f"{row}{PIVOT}{scheme or policy}", values=values))
    return figures


def _values(found: Mapping[str, Any], row: str) -> list[float]:
    keys, factor = METRICS[row]
    leaf: Any = found
    for key in keys:
        leaf = leaf[key]
    return [factor * value for value in leaf["repeats"]]


def _additional(result: schedbed.Result, repeats: int) -> list[float]:
    """Return for each repeat how many additional replicas of inputs were made while jobs ran."""
    blocks = result.blocks
    made = blocks[blocks["cause"].isin(["dare", "scarlett", "cdrm"])]
    return [float((made["repeat"] == repeat).sum()) for repeat in range(repeats)]


def table(kept: ResultFile) -> str:
    """Return the kept figures of a case as Markdown: the command, and means with 95% intervals."""
    cells = pivoted(kept.figures)
    columns = list(next(iter(cells.values())))
    lines = [
        *(f"`{command}`  " for command in kept.command.split("; ")),
        f"Means and 95% intervals, on {kept.date}:\n",
        "| | " + " | ".join(f"`{column}`" for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [
        f"| {row} | " + " | ".join(_cell(mine[column].values) for column in columns) + " |"
        for row, mine in cells.items()
    ]
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    leaf = stats.leaf(values)
    if leaf["ci95"] is None or leaf["ci95"][0] == leaf["ci95"][1]:
        return show(leaf["mean"])
    low, high = leaf["ci95"]
    return f"{show(leaf['mean'])} [{show(low)}, {show(high)}]"


def tables(kept: Path = KEPT) -> dict[str, str]:
    """Return a dictionary from the names of cases to their tables."""
    return {name: table(ResultFile.load(kept / f"{name}.json")) for name in CASES}


def main() -> None:
    """Simulate the cases that the command line names, by default all, and keep their figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("cases", nargs="*", default=list(CASES), help="names of cases (default: all)")
    options.add_argument("--out", type=Path, default=KEPT, help="folder of the result files")
    asked = options.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.cases:
        case = CASES[name]
        kept = ResultFile(
            title=name, date=today(), host=host_line(), command=case.command, figures=simulate(case)
        )
        kept.save(asked.out / f"{name}.json")
        print(name)


if __name__ == "__main__":
    main()
