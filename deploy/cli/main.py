"""The program `schedbed`: its options and subcommands. Slow imports happen only in the commands that need them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from schedbed import __version__
from schedbed.deploy.cli import (
    arena_command,
    cluster_commands,
    doctor_command,
    plan_command,
    scenario_commands,
    users_command,
    validate_command,
)
from schedbed.deploy.cli.arguments import (
    Isolated,
    Jobs,
    Machines,
    Metrics,
    NodeCount,
    NoLive,
    Ports,
    Private,
    ReadOnly,
    RunSeed,
    ScaleFactor,
    Scenario,
    SetKey,
    SimAddress,
    Tls,
    TrustCode,
    Web,
    WebHdfs,
    jobs_at_once,
    jobs_on_hosts,
    show_warnings,
)
from schedbed.deploy.cli.endings import Commands
from schedbed.deploy.cli.hosts_command import hosts_app
from schedbed.deploy.cli.policy_commands import policy_app
from schedbed.deploy.options import check_machines_name
from schedbed.tasks.traces.formats import NAMES

app = typer.Typer(
    name="schedbed",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
trace_app = typer.Typer(
    help="Describe recorded traces, and convert them to scenarios.\n\nExample: schedbed trace describe "
    "FB-2009.tsv",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(trace_app, name="trace")
app.add_typer(policy_app, name="policy")
app.add_typer(hosts_app, name="hosts")
cluster_commands.add_commands(app)
users_command.add_commands(app)
scenario_commands.add_commands(app)

RunPolicies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="Policy to use instead of those in the scenario, such as delay:node_wait=5s. May be repeated.",
    ),
]
RunAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR|auto",
        help="Spread the nodes, or the simulations, over the hosts of a Ray cluster at this address "
        "(host:port, or auto).",
    ),
]
NoReport = Annotated[
    bool,
    typer.Option(
        "--no-report", help="Do not write the report and its plots; `schedbed report` can write them later."
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the results of a run.")]
TraceFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Path of the trace file or folder; files may be packed.")
]
Format = Annotated[
    str | None,
    typer.Option(metavar="|".join(NAMES), help="Format of the trace, recognized from the file if not given."),
]
FitCluster = Annotated[
    bool,
    typer.Option(
        "--fit-cluster",
        help="Also propose a cluster with enough nodes and slots for the trace.",
        show_default=False,
    ),
]


RunRepeats = Annotated[
    int | None, typer.Option(help="Number of runs of each policy, instead of the scenario's repeats.")
]
RunOut = Annotated[
    Path | None, typer.Option(help="Folder for the results of the run, by default a new folder in runs/.")
]
NoCheck = Annotated[
    bool,
    typer.Option(
        "--no-check",
        help="Do not check whether the outputs of wordcount and sort are right after each run.",
    ),
]
Plots = Annotated[
    bool,
    typer.Option(
        "--plots/--no-plots",
        help="Write the plots as files now; `schedbed report` can also write them later.",
    ),
]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"schedbed {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Emulate MapReduce clusters, live or in virtual time, to compare schedulers.

    Example: schedbed run quickstart
    """


@app.command()
def run(
    scenario: Scenario,
    policy: RunPolicies = None,
    machines: Machines = "process",
    address: RunAddress = None,
    tls: Tls = False,
    ports: Ports = None,
    nodes: NodeCount = None,
    scale: ScaleFactor = None,
    repeats: RunRepeats = None,
    seed: RunSeed = None,
    set_: SetKey = None,
    jobs: Jobs = None,
    out: RunOut = None,
    private: Private = False,
    keep_outputs: Annotated[
        bool, typer.Option("--keep-outputs", help="Also copy the outputs of the jobs to the results folder.")
    ] = False,
    no_live: NoLive = False,
    trust_code: TrustCode = False,
    no_check: NoCheck = False,
    plots: Plots = False,
    no_report: NoReport = False,
    webhdfs: WebHdfs = None,
    metrics: Metrics = None,
    web: Web = None,
    read_only: ReadOnly = False,
    isolated: Isolated = False,
) -> None:
    """Run a scenario under each policy, print a comparison, and write the results.

    Example: schedbed run quickstart --policy fifo --policy delay:node_wait=5s --out results
    """
    check_machines_name(machines)
    if machines != "sim" and not no_live and sys.stdout.isatty():
        typer.echo(f"{scenario} ...")  # The imports below take a second.
    from schedbed.deploy.scenario.resolve import resolve

    if isolated and machines == "sim":
        from schedbed.deploy.simulated.confined_policies import isolate

        for line in isolate():
            typer.echo(line, err=True)
    resolved = resolve(
        scenario, sets=set_ or (), policies=policy, nodes=nodes, scale=scale, repeats=repeats, seed=seed
    )
    show_warnings(resolved.warnings)

    from schedbed.deploy.whole_run import RunOptions, run_scenario

    where = RunOptions(
        out=out, machines=machines, address=address, tls=tls, ports=ports, webhdfs=webhdfs, metrics=metrics
    )
    what = {"live": not no_live, "check": not no_check, "plots": plots, "keep_outputs": keep_outputs}
    what |= {"private": private, "web": web, "read_only": read_only, "report": not no_report}
    what |= {"isolated": isolated}
    what |= {"jobs": jobs_on_hosts(jobs, address, machines)}
    run_scenario(resolved, replace(where, **what))


@app.command()
def whatif(
    folder: RunFolder,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC", help="Policy to simulate, such as fair or delay:node_wait=5s. May be repeated."
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Number of nodes to simulate, instead of the number in the recorded run."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="SPEC", help="Policy of the recorded run from which the task costs are taken."
        ),
    ] = None,
    jobs: Jobs = None,
    address: SimAddress = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results of the simulations.")] = None,
    private: Private = False,
    no_live: NoLive = False,
    trust_code: TrustCode = False,
) -> None:
    """Replay a recorded run in the simulator, with the task costs of the recording.

    Example: schedbed whatif results --policy fair --policy delay:node_wait=5s --nodes 20
    """
    from schedbed.deploy.options import RunOptions
    from schedbed.deploy.studies.whatif import whatif as replay

    at_once = jobs_on_hosts(jobs, address)
    options = RunOptions(out=out, live=not no_live, private=private, jobs=at_once, address=address)
    replay(folder, policy or (), options, nodes=nodes, recorded=from_, say=typer.echo)


plan_command.add_commands(app)
validate_command.add_commands(app)
arena_command.add_commands(app)


@app.command()
def report(folder: RunFolder) -> None:
    """Rebuild report.html, the plots and the summary of a finished run.

    Of a run that goes on, the comparison so far is printed, and nothing is written.

    Example: schedbed report results
    """
    from schedbed.deploy.results.html_report import report_on

    report_on(folder)


@app.command()
def explain(
    folder: RunFolder,
    task: Annotated[
        str, typer.Argument(metavar="TASK_ID", help="Id of the task, such as job_0001_m_000003.")
    ],
    policy: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Show only the run under this policy.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(help="Show only this repeat of the run, by number.")] = None,
) -> None:
    """Show why a task ran on its node at its time: the free slots offered to the policy, and its answers.

    Example: schedbed explain results job_0001_m_000003 --policy delay
    """
    from schedbed.deploy.results.explain import explain as explain_task

    explain_task(folder, task, policy=policy, repeat=repeat)


@app.command()
def policies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name of one policy to show with all details, instead of all policies."
        ),
    ] = None,
) -> None:
    """List the scheduling policies with their parameters, defaults, units and papers.

    Example: schedbed policies delay
    """
    from schedbed.deploy.cli.lists import show_policies

    show_policies(name)


@app.command()
def apps(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name of one application to show, instead of all applications."
        ),
    ] = None,
) -> None:
    """List the applications with their parameters, defaults and units.

    Example: schedbed apps
    """
    from schedbed.deploy.cli.lists import show_apps

    show_apps(name)


@app.command()
def suites(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name of one suite to show with its jobs, instead of all suites."
        ),
    ] = None,
) -> None:
    """List the workloads that come with the software, for `workload: {suite: NAME}` in a scenario.

    Example: schedbed suites mixed
    """
    from schedbed.deploy.cli.lists import show_suites

    show_suites(name)


doctor_command.add_commands(app)  # This position determines the place in the help.


@app.command()
def profile(
    scenario: Scenario,
    app_: Annotated[
        str,
        typer.Option(
            "--app",
            metavar="APP",
            help="What to measure: an application, the jobs with a given name in the scenario, or "
            "the disks (io-rates).",
        ),
    ],
    machines: Machines = "process",
    most: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest number of map slots per node to try, by default twice the number of cores."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File in which the measurements are saved, by default your own profile store.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder in which the results of the measured runs are kept.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete the saved measurements of these jobs, and run nothing.")
    ] = False,
    trust_code: TrustCode = False,
) -> None:
    """Run an application alone, measure its use of resources and the durations of its phases, and save them.

    Example: schedbed profile quickstart --app wordcount --machines sim
    """
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.studies.profile import ProfileOptions
    from schedbed.deploy.studies.profile import profile as profile_app

    check_machines_name(machines)
    options = ProfileOptions(machines=machines, most=most, store=store, out=out, clear=clear)
    profile_app(resolve(scenario), app_, options)


@app.command()
def reproduce(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER[/EXPERIMENT]]",
            help="Paper or experiment to run. Without it, all experiments are listed.",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Run every experiment that can run on the chosen --machines.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Run one main experiment of each paper, live with one seed and simulated."
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Run experiments at the size in the paper, which takes hours.")
    ] = False,
    machines: Machines = "process",
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of repeats of each experiment, instead of the experiment's own number."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 1,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results: index.html, results.json and the runs.")
    ] = None,
) -> None:
    """Run the papers' experiments, and show published values, measured values, and whether each claim holds.

    Example: schedbed reproduce verma2011/fig5 --machines sim --out results
    """
    from schedbed.deploy.cli.paper_commands import ReproduceOptions
    from schedbed.deploy.cli.paper_commands import reproduce as reproduce_papers

    check_machines_name(machines)
    reproduce_papers(
        target,
        ReproduceOptions(machines, all_, quick, full, repeats, seed, jobs_at_once(jobs), out),
    )


@app.command()
def fit(
    history: Annotated[
        list[Path],
        typer.Argument(metavar="HISTORY", help="Recorded history of the cluster's jobs: a file or a folder."),
    ],
    conf: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file of the cluster: capacity-scheduler.xml, fair-scheduler.xml, yarn-site.xml, "
            "mapred-site.xml, slurm.conf, fairscheduler.xml or spark-defaults.conf. May be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="OUT.yaml", help="Path of the scenario file to write.")] = Path(
        "my.yaml"
    ),
) -> None:
    """Write a scenario of your cluster, from its history and its configuration files.

    Prints each setting that was taken, each without counterpart, and each that the history contradicts.

    Example: schedbed fit history/ --conf capacity-scheduler.xml --conf yarn-site.xml --out my.yaml
    """
    from schedbed.deploy.fit.fit import fit as fit_cluster_of

    fit_cluster_of(history, conf or (), out, typer.echo)


@trace_app.command()
def describe(file: TraceFile, format: Format = None, fit_cluster: FitCluster = False) -> None:
    """Describe a trace: its jobs, tasks, bytes and times, missing data, and contradictions between columns.

    Example: schedbed trace describe FB-2009_samples_24_times_1hr_0.tsv
    """
    from schedbed.deploy.cli.trace_commands import show_trace

    show_trace(file, format, fit=fit_cluster)


@trace_app.command()
def convert(
    file: TraceFile,
    out: Annotated[Path, typer.Argument(metavar="OUT.yaml", help="Path of the scenario file to write.")],
    format: Format = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of jobs to convert, starting with the first one. By default all."),
    ] = None,
    fit_cluster: FitCluster = False,
) -> None:
    """Convert a trace to a scenario of synthetic jobs.

    Example: schedbed trace convert FB-2009_samples_24_times_1hr_0.tsv fb2009.yaml --jobs 50
    """
    from schedbed.deploy.cli.trace_commands import convert_trace

    convert_trace(file, out, format, jobs, fit=fit_cluster)
