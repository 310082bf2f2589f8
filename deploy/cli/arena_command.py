"""The command `schedbed arena`: simulates every policy on every workload and ranks the policies."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from schedbed.deploy.cli.arguments import Jobs, SimAddress, jobs_on_hosts
from schedbed.tasks.errors import BadInput

SEEDS, SEEDS_QUICK, SEEDS_SCORE = 10, 3, 1
LIVE_SEEDS = 3
TIME_S, MEMORY_MIB = 600.0, 4096

Names = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Names of the policies to compare, by default all. One with several parameters goes to --policy.",
    ),
]
Own = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="SPEC",
        help="Additional policy: one with parameters such as dtss:p=0.5,keep_copy=true, a composition of axes such as "
        "order=fair,locality=delay, or your own class my.py:Mine. May be repeated.",
    ),
]
Loads = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Workloads to use: suites, drawn, or names of single workloads. By default all.",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--workload",
        metavar="FILE",
        help="Additional workload: a scenario file or a trace file. May be repeated.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use only a few small workloads, for a first impression.")
]
Score = Annotated[
    bool,
    typer.Option("--score", help="Only simulate the one --policy, and print its score as one line of JSON."),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Number of seeds for each policy and workload, by default {SEEDS}, or {SEEDS_QUICK} with --quick.",
    ),
]
Live = Annotated[
    int | None,
    typer.Option(
        metavar="SEEDS",
        min=0,
        help=f"Number of seeds with which the best policies also run live, by default {LIVE_SEEDS}, "
        "or 0 with --quick and --score.",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="Longest time that the simulation of one policy on one workload with one seed may take.",
    ),
]
MemoryLimit = Annotated[
    int,
    typer.Option(
        min=256,
        metavar="MIB",
        help="Most memory that the simulation of one policy on one workload with one seed may use.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(help="Folder for the results. After an interruption, the same command continues there."),
]


FITTED = {"ras": "ras:learn=3", "fgcs": "fgcs:learn=3,shortest=0s,reserved_cores=0"}
"""Policies that run with parameters. No profile of the arena's jobs exists, so they learn from the first tasks.

The arena's nodes have two cores and run no daemons: a core reserved for these, as in the paper, would be half a node.
"""


def add_commands(app: typer.Typer) -> None:
    app.command()(arena)


def arena(
    policies: Names = None,
    policy: Own = None,
    workloads: Loads = None,
    workload: Files = None,
    quick: Quick = False,
    score: Score = False,
    seeds: Seeds = None,
    live: Live = None,
    jobs: Jobs = None,
    address: SimAddress = None,
    time_limit: TimeLimit = TIME_S,
    memory_limit: MemoryLimit = MEMORY_MIB,
    out: Out = Path("arena"),
) -> None:
    """Simulate every policy on every workload with the same seeds, run the best live, and write a ranking.

    Example: schedbed arena --quick --policy my_policy.py:ShortestFirst
    """
    from schedbed.deploy.arena.arena_page import rank_agreement
    from schedbed.deploy.arena.contest import PAGE, Contest, hold
    from schedbed.deploy.arena.courses import choose
    from schedbed.deploy.options import IN_CLEAR_SIMULATED
    from schedbed.deploy.worker_fork import WorkBounds
    from schedbed.scheduler.registry.registry import POLICIES

    own = [spec.strip() for spec in policy or ()]
    if score and (len(own) != 1 or policies is not None):
        raise BadInput("--score: expected one --policy SPEC and no --policies")
    named = _listed(policies) if policies is not None else [] if score else [*map(_as_run, POLICIES)]
    usual = SEEDS_SCORE if score else SEEDS_QUICK if quick else SEEDS
    contest = Contest(
        policies=tuple(dict.fromkeys([*named, *own])),
        courses=tuple(choose(_listed(workloads), workload or (), quick=quick or score)),
        seeds=usual if seeds is None else seeds,
        jobs=jobs_on_hosts(jobs, address),
        bounds=WorkBounds(time_limit, memory_limit << 20),
        address=address,
        live_seeds=(0 if quick or score else LIVE_SEEDS) if live is None else live,
    )
    if score:
        from schedbed.deploy.simulated.confined_policies import isolate

        if address is not None:
            raise BadInput("--score: policies are isolated on this host, expected no --address")
        for line in isolate():
            typer.echo(line, err=True)
    if address is not None:
        typer.echo(IN_CLEAR_SIMULATED, err=True)
    if score:
        with tempfile.TemporaryDirectory(prefix="schedbed-arena-") as made:
            found = hold(contest, Path(made), lambda _: None)
        _tell_score(found, own[0])
        return
    found = hold(contest, out, typer.echo)
    for name, mean in found["rank"]["ranks"].items():
        typer.echo(f"{mean:6.2f}  {name}")
    if found["live"] is not None:
        typer.echo(rank_agreement(found["live"]))
    typer.echo(f"Results: {out}  (open {out / PAGE})")


def _tell_score(found: dict[str, object], spec: str) -> None:
    from schedbed.deploy.arena.ranking import score_of

    said = score_of(found, spec)
    typer.echo(json.dumps(said))
    if said["score"] is None:
        raise typer.Exit(1)


def _as_run(name: str) -> str:
    return FITTED.get(name, name)


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]
