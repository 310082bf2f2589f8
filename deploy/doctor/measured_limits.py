"""Runs the measurements of `schedbed doctor --measure` and `--hostile`, prints the results and saves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from rich.console import Console

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.doctor.achieved import SECONDS, measure
from schedbed.deploy.doctor.hostile_measure import HOSTILE_S, check_programs, measure_hostile
from schedbed.deploy.doctor.trials import TRIALS, TRUSTING, UNLIMITED, HostileTrial, LimitRow
from schedbed.deploy.doctor.verdicts import HOST_BUSY, Achieved, declared, show
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.hostwatch import describe_host
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.errors import BadInput
from schedbed.tasks.units import format_bytes, format_rate


def measure_limits(
    scenario: ResolvedScenario,
    console: Console,
    *,
    machines: str,
    hostile: bool,
    save: Path | None,
    seconds: float = SECONDS,
    hostile_s: float = HOSTILE_S,
    trials: Sequence[HostileTrial] = TRIALS,
) -> None:
    """Measure the limits of the nodes, print and save them. Raises RunFailed, BadInput.

    With `hostile`, also run `trials`, which try to exceed each limit. RunFailed means that a limit does not
    hold; BadInput, that such machines do not work here, the file cannot be written, or the hostile programs
    are missing.
    """
    if hostile:
        check_programs()
    nodes, problems = scenario.cluster.nodes, list[str]()
    console.print(f"Measuring {len(nodes)} nodes, one to two minutes ...")
    found = measure(scenario, machines, seconds)
    rows = cooperating_rows(found, nodes)
    try:
        show(found, nodes, console)
    except RunFailed as error:
        problems.append(str(error))
    if hostile:
        console.print("Attempts that do not cooperate, about two minutes ...")
        tried = measure_hostile(scenario, machines, console.print, hostile_s, trials)
        rows += tried
        try:
            show_hostile(tried, console)
        except RunFailed as error:
            problems.append(str(error))
    if save is not None:
        LimitsFile.measured_now(scenario.name, machines, rows, hostile=hostile).save(save)
    if problems:
        raise RunFailed("; ".join(problems))


# Prints and stores measured limits: the resources that cooperating and uncooperative attempts achieved.


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsFile:
    """A JSON file of measured limits, the `rows` of one `schedbed doctor --measure`."""

    machines: str
    date: str
    host: str
    command: str
    rows: Sequence[LimitRow]

    @classmethod
    def measured_now(
        cls, scenario: str, machines: str, rows: Sequence[LimitRow], *, hostile: bool
    ) -> LimitsFile:
        """Return a new file's content, with rows measured on this host today."""
        host = describe_host()
        return cls(
            machines=machines,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            host=f"{host['cores']} cores, {host['memory_bytes'] / 2**30:.0f} GiB, {host['system']}",
            command=f"schedbed doctor {scenario} --measure {'--hostile ' if hostile else ''}--machines {machines}",
            rows=rows,
        )

    @classmethod
    def load(cls, path: Path) -> LimitsFile:
        """Load a file. Raises TypeError for a missing or unknown key."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**content, "rows": [LimitRow(**row) for row in content["rows"]]})

    def save(self, path: Path) -> None:
        """Write a JSON file with a line for each row, for readable diffs. Raises BadInput."""
        content = asdict(self)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in content.pop("rows"))
        head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in content.items())
        try:
            path.write_text(f'{{\n{head} "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
        except OSError as error:
            raise BadInput(f"--save {path}: {error.strerror}, expected a file that can be written") from None


def cooperating_rows(found: Sequence[Achieved], nodes: Sequence[NodeSpec]) -> list[LimitRow]:
    """Return a row per resource and load, of the node most off its declared value."""
    specs = {node.node: node for node in nodes}
    worst: dict[tuple[str, str], Achieved] = {}
    for each in found:
        key = (each.resource, each.load)
        if key not in worst or abs(each.error) > abs(worst[key].error):
            worst[key] = each
    return [_cooperating(each, float(declared(specs[each.node], each.resource))) for each in worst.values()]


def _cooperating(each: Achieved, allowed: float) -> LimitRow:
    return LimitRow(
        node=each.node,
        resource=each.resource,
        code=each.load,
        hostile=False,
        declared=allowed,
        achieved=allowed * each.ratio,
        by=each.by,
        witness="attempts",
        verdict=each.verdict,
        resolution=allowed * each.resolution,
        note=each.busy if each.verdict == HOST_BUSY else "",
    )


def show_hostile(rows: Sequence[LimitRow], console: Console) -> None:
    """Print what uncooperative attempts achieved. Raises RunFailed for a limit that fails or was not tested."""
    node = rows[0].node if rows else ""
    console.print(f"\nAttempts that do not cooperate, on {node}, by the kernel's counters")
    lines: list[str] = []
    for (resource, by), group in groupby(rows, key=lambda row: (row.resource, row.by)):
        same = list(group)
        trusts = "".join({f", {row.verdict}" for row in same if row.verdict in (TRUSTING, UNLIMITED)})
        lines += ["", f"{resource}, by {by}{trusts}"]
        for row in same:
            verdict = "" if trusts else row.verdict
            allowed, got = amounts(row)
            lines.append(f"  {row.code:<25} {allowed:>11} {got:>13}  {row.witness:<15} {verdict}".rstrip())
            lines += [f"    {row.note}"] if row.note else []
    head = f"  {'what an attempt does':<25} {'declared':>11} {'gets':>13}  counted by"
    console.print("\n".join([head, *lines]), soft_wrap=True, markup=False, highlight=False)
    if any(row.verdict == TRUSTING for row in rows):
        console.print(f"\nA limit that {TRUSTING} is a budget: code that does not ask it gets what is shown.")
    failed = [row for row in rows if row.fails]
    if failed:
        told = "; ".join(f"{row.resource}: {row.code}" for row in failed)
        raise RunFailed(
            f"{len(failed)} of {len(rows)} hostile attempts got past a limit that claims to hold for any "
            f"code, or could not be shown to be held: {told}"
        )


def amounts(row: LimitRow) -> tuple[str, str]:
    """Return declared and achieved amounts with units."""
    declared = "nothing" if row.declared is None else _shown(row.resource, row.declared)
    return declared, "not seen" if row.achieved is None else _shown(row.resource, row.achieved)


def _shown(resource: str, value: float) -> str:
    match resource:
        case "cpu":
            return f"{value:.3f} cores"
        case "memory":
            return format_bytes(value)
        case "processes":
            return f"{value:,.0f}"
        case _:
            return format_rate(value)
