"""The command `schedbed plan`: how many nodes the deadlines of a scenario need."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from schedbed.deploy.cli.arguments import (
    Jobs,
    RunSeed,
    Scenario,
    SetKey,
    TrustCode,
    jobs_at_once,
    show_warnings,
)
from schedbed.deploy.failures import RunFailed

if TYPE_CHECKING:
    from schedbed.deploy.studies.plan import LeastNodes, TriedSize

MOST = 1000

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", metavar="SPEC", help="Policy to use instead of those in the scenario. May be repeated."
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        help="Number of runs of each size, none of which may be late, instead of the scenario's repeats."
    ),
]
Most = Annotated[int, typer.Option(min=1, metavar="N", help="Largest number of nodes to try.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def add_commands(app: typer.Typer) -> None:
    app.command()(plan)


def plan(
    scenario: Scenario,
    policy: Policies = None,
    repeats: Repeats = None,
    seed: RunSeed = None,
    set_: SetKey = None,
    most: Most = MOST,
    jobs: Jobs = None,
    json_: AsJson = False,
    trust_code: TrustCode = False,
) -> None:
    """Find the least number of nodes on which all jobs of a scenario meet their deadlines, by simulations.

    Example: schedbed plan quickstart --policy fair --policy aria
    """
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.studies.plan import plan as plan_nodes

    resolved = resolve(scenario, sets=set_ or (), policies=policy, repeats=repeats, seed=seed)
    show_warnings(resolved.warnings)

    def show(spec: str, tried: TriedSize) -> None:
        typer.echo(f"{spec}: {_line(tried)}", err=json_)

    plans = plan_nodes(resolved, most=most, at_once=jobs_at_once(jobs), show=show)
    if json_:
        typer.echo(json.dumps([asdict(each) for each in plans], indent=2))
    else:
        typer.echo("")
        for each in plans:
            typer.echo(_result(each, most))
    if none := [each.policy for each in plans if each.least is None]:
        raise RunFailed(f"the deadlines do not hold on {most} nodes under {', '.join(none)}")


def _line(tried: TriedSize) -> str:
    held = "all deadlines hold" if tried.holds else f"{tried.late} late"
    used = "did not succeed" if tried.used is None else f"takes {100 * tried.used:.3g}% of its time"
    return f"{tried.nodes} nodes, {held}, {tried.worst} {used}"


def _result(found: LeastNodes, most: int) -> str:
    if found.least is None:
        return f"{found.policy}: more than {most} nodes"
    fewer = next((each for each in found.tried if each.nodes == found.least.nodes - 1), None)
    why = "as many as blocks have replicas" if fewer is None else f"with {fewer.nodes}, {fewer.late} late"
    return f"{found.policy}: {found.least.nodes} nodes ({why})"
