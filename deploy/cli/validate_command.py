"""The command `schedbed validate`: compares the simulator with live runs or with a recorded trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from schedbed.deploy.cli.arguments import (
    Jobs,
    NoLive,
    SetKey,
    SimAddress,
    TrustCode,
    complete_scenario,
    jobs_at_once,
    jobs_on_hosts,
    show_warnings,
)
from schedbed.tasks.errors import BadInput

SEED = 1
AnyScenario = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[SCENARIO]...",
        help="Path of a scenario file, or name of a scenario that comes with schedbed, such as quickstart. "
        "With --recorded: one or more traces, or scenarios of traces.",
        autocompletion=complete_scenario,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(metavar="SPEC", help="Policy to use instead of those in the scenario. May be repeated."),
]
Repeats = Annotated[
    int,
    typer.Option(
        min=1, help="Number of live runs of each policy. Every second one is used to fit the costs of tasks."
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of a finished live run of the scenario, to compare with instead of running it live.",
    ),
]
Phases = Annotated[
    bool, typer.Option("--phases", help="Also compare the time that tasks spent in each phase.")
]
Recorded = Annotated[
    bool,
    typer.Option(
        "--recorded",
        help="Each SCENARIO is a recorded trace (job histories of Hadoop, Spark, Slurm or SWF), or a scenario of one "
        "as `schedbed fit` writes it: simulate it, and compare each job with the recorded times.",
    ),
]
FrameworkName = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="With --recorded: framework whose delays are simulated, by default that of the trace's format, such as "
        "hadoop1 for Rumen and yarn for .jhist.",
    ),
]
Conf = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="With --recorded: configuration file of the recorded cluster, as for `schedbed fit`. May be repeated.",
    ),
]
Fit = Annotated[
    bool,
    typer.Option(
        "--fit",
        help="With --recorded: fit the delays of the framework to every second trace, and compare the others only.",
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        metavar="N",
        help="Validate N random scenarios instead of SCENARIO, about four minutes each.",
    ),
]
Seed = Annotated[
    int | None, typer.Option(help=f"With --drawn: seed of the random scenarios, by default {SEED}.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for all runs and validate.json. With --drawn, an interrupted command continues there."
    ),
]


def add_commands(app: typer.Typer) -> None:
    app.command()(validate)


def validate(
    scenario: AnyScenario = None,
    policy: Policies = None,
    repeats: Repeats = 5,
    set_: SetKey = None,
    against: Against = None,
    phases: Phases = False,
    recorded: Recorded = False,
    framework: FrameworkName = None,
    conf: Conf = None,
    fit: Fit = False,
    drawn: Count = None,
    seed: Seed = None,
    jobs: Jobs = None,
    address: SimAddress = None,
    out: Out = None,
    no_live: NoLive = False,
    trust_code: TrustCode = False,
) -> None:
    """Run a scenario live and simulated, or simulate a recorded trace, and print the errors of the simulator.

    Example: schedbed validate mixed --repeats 5 --phases
    """
    if address is not None and against is None:
        raise BadInput("--address: only simulations go to other hosts, expected --against DIR beside it")
    if drawn is not None:
        others = {"SCENARIO": scenario, "--policy": policy, "--set": set_, "--against": against}
        others |= {"--phases": phases, "--recorded": recorded, "--framework": framework}
        others |= {"--fit": fit, "--conf": conf}
        seed = SEED if seed is None else seed
        _validate_drawn(drawn, seed, repeats, jobs_at_once(jobs), out, others, live=not no_live)
        return
    if seed is not None:
        raise BadInput(f"--seed {seed}: only goes with --drawn, expected `seed:` in a scenario")
    if not scenario:
        raise BadInput("validate: expected a SCENARIO, a trace with --recorded, or --drawn N")
    if recorded or fit or conf or framework is not None:
        if address is not None:
            raise BadInput("--address: does not go with --recorded, which simulates under one policy")
        from schedbed.deploy.cli.trace_commands import validate_traces

        validate_traces(scenario, out, recorded, framework, policy, set_ or (), fit, conf or ())
        return
    if len(scenario) > 1:
        raise BadInput(f"validate: {len(scenario)} scenarios, expected one, or traces with --recorded")
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.studies.validate import validate as hold_against

    resolved = resolve(scenario[0], sets=set_ or (), policies=policy, repeats=repeats)
    show_warnings(resolved.warnings)
    at_once = jobs_on_hosts(jobs, address)
    options = RunOptions(out=out, live=not no_live, jobs=at_once, address=address)
    hold_against(resolved, options, live_folder=against, show_phases=phases, say=typer.echo)


def _validate_drawn(
    count: int,
    seed: int,
    repeats: int,
    jobs: int,
    out: Path | None,
    others: Mapping[str, object],
    *,
    live: bool,
) -> None:
    for name, value in others.items():
        if value:
            raise BadInput(f"--drawn {count}: does not go with {name}")
    from schedbed.cluster.machines.host_abilities import usable_cores
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.results.stats import REPEATS_LEAST
    from schedbed.deploy.studies.drawn_scenarios import validate_drawn

    if repeats < REPEATS_LEAST:
        raise BadInput(f"--repeats {repeats}: tells no two policies apart, expected at least {REPEATS_LEAST}")
    options = RunOptions(out=out, live=live, jobs=jobs)
    validate_drawn(count, seed, repeats, usable_cores(), options, say=typer.echo)
