"""Runs the measurements of `schedbed doctor --measure` and `--hostile`, prints the results and saves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from schedbed.deploy.doctor.achieved import SECONDS, measure
from schedbed.deploy.doctor.hostile_measure import HOSTILE_S, check_programs, measure_hostile
from schedbed.deploy.doctor.limit_rows import LimitsFile, cooperating_rows, show_hostile
from schedbed.deploy.doctor.trials import TRIALS, HostileTrial
from schedbed.deploy.doctor.verdicts import show
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.scenario.resolved import ResolvedScenario


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
    """Measure the limits of the scenario's nodes, print the results, and write them to the file `save`.

    With `hostile`, also run `trials`, attempts that try to exceed each limit. Each load takes about
    `seconds`, each hostile trial about `hostile_s`. Raises RunFailed if a limit does not hold, BadInput if
    machines of the kind `machines` do not work on this host, the file cannot be written, or the hostile programs
    are not installed.
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
