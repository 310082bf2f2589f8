"""The commands `schedbed up`, `submit`, `status`, `kill`, `fault`, `change` and `down`, for running clusters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedbed.cluster.machines.make import KINDS
from schedbed.deploy.cli.arguments import (
    ApiPort,
    LiveMachines,
    Metrics,
    NodeCount,
    Ports,
    Private,
    ReadOnly,
    RunSeed,
    ScaleFactor,
    Scenario,
    SetKey,
    Tls,
    Users,
    Web,
    WebHdfs,
    show_warnings,
)
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import IN_CLEAR, check_read_only, check_tls
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    from schedbed.deploy.scenario.resolved import ResolvedScenario
    from schedbed.deploy.service.start import StartOrder

SetKeys = list[str] | None
Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Name of the cluster, not needed if only one cluster is running."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
JOB_FILES = (".yaml", ".yml", ".json")


UpPolicy = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="Policy to use instead of the first one in the scenario, such as fair."
    ),
]
UpName = Annotated[str | None, typer.Option(help="Name of the cluster, by default the name of the scenario.")]
WithWorkload = Annotated[
    bool,
    typer.Option("--with-workload", help="Also submit the jobs and inject the faults of the scenario."),
]
KeepOutputs = Annotated[
    bool,
    typer.Option(
        "--keep-outputs",
        help="Also copy the outputs of the jobs to the results folder when the cluster is shut down.",
    ),
]
InForeground = Annotated[
    bool,
    typer.Option(
        "--foreground",
        help="Keep running in this terminal with a live display, until `schedbed down` or Ctrl-C.",
    ),
]


JobsToSubmit = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME] [JOBS.yaml]",
        help="Name of the cluster, if several are running, and optionally a file with jobs to submit.",
    ),
]
JobInput = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="FILE|generate=KIND,size=SIZE",
        help="Input file of the job, or kind and size of data to generate, such as generate=text,size=64MiB.",
    ),
]
JobPriority = Annotated[
    str | None,
    typer.Option(
        metavar="very_high|high|normal|low|very_low", help="Priority of the job, by default normal."
    ),
]
JobDeadline = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time from now by which the job should be done, such as 10m, multiplied by the cluster's scale.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    for command in (up, submit, status, kill, fault, change, down):
        app.command()(command)


def up(
    scenario: Scenario,
    policy: UpPolicy = None,
    machines: LiveMachines = "process",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="Spread the nodes over the hosts of a Ray cluster at this address (host:port, or auto).",
        ),
    ] = None,
    tls: Tls = False,
    ports: Ports = None,
    name: UpName = None,
    with_workload: WithWorkload = False,
    nodes: NodeCount = None,
    scale: ScaleFactor = None,
    seed: RunSeed = None,
    set_: SetKey = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results of the cluster.")] = None,
    private: Private = False,
    webhdfs: WebHdfs = None,
    metrics: Metrics = None,
    web: Web = None,
    read_only: ReadOnly = False,
    users: Users = None,
    api: ApiPort = 0,
    keep_outputs: KeepOutputs = False,
    foreground: InForeground = False,
) -> None:
    """Start the cluster of a scenario without its jobs, and keep the cluster running so that it accepts jobs.

    Example: schedbed up quickstart --name lab --policy fair
    """
    check_tls(tls, address)
    check_read_only(web, read_only)
    from schedbed.deploy.service.cluster_files import check_name
    from schedbed.deploy.service.start import StartOrder
    from schedbed.deploy.service.users.user_book import read_class

    if machines not in KINDS:
        raise BadInput(f"--machines {machines}: expected {' or '.join(KINDS)} for a cluster that stays up")
    changes = {"policies": None if policy is None else [policy], "nodes": nodes, "scale": scale, "seed": seed}
    resolved = _resolved(scenario, sets=set_ or (), **changes, idle=not with_workload)
    where = {"machines": machines, "address": address, "tls": tls, "ports": ports}
    where |= {"webhdfs": webhdfs, "metrics": metrics, "web": web, "read_only": read_only, "api": api}
    listed = () if users is None else tuple(read_class(users))
    kept = {"out": out, "keep_outputs": keep_outputs, "private": private}
    name = check_name(name or resolved.name)
    _up(StartOrder(name=name, scenario=resolved, users=listed, **where, **kept), foreground)


def _resolved(scenario: Path, **changes: Any) -> ResolvedScenario:
    """Resolve a scenario with changes. Raises BadInput for costs of the framework that only simulations have."""
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.whole_run import check_framework

    resolved = resolve(scenario, **changes)
    check_framework(resolved)
    show_warnings(resolved.warnings)
    return resolved


def _up(order: StartOrder, stays: bool) -> None:
    from schedbed.deploy.service.cluster_files import clusters
    from schedbed.deploy.service.show import show_up
    from schedbed.deploy.service.start import start

    for line in clusters()[1].values():
        typer.echo(f"note: {line}", err=True)
    if not stays:
        started = start(order)
        if order.address is not None and not order.tls:
            typer.echo(IN_CLEAR, err=True)  # The service itself prints to its log file.
        show_up(started, len(order.users))
        return
    from schedbed.deploy.service.service import serve

    serve(order, lambda record: show_up(record, len(order.users)), live=True)


def submit(
    what: JobsToSubmit = None,
    app: Annotated[
        str | None,
        typer.Option(metavar="APP", help="Application of the job, such as wordcount (see schedbed apps)."),
    ] = None,
    input_: JobInput = None,
    maps: Annotated[int | None, typer.Option(min=1, help="Number of maps, for a job without input.")] = None,
    reduces: Annotated[int | None, typer.Option(min=0, help="Number of reduces.")] = None,
    job_name: Annotated[
        str | None, typer.Option(help="Name of the job, by default the name of its application.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="User to whom the job belongs, by default you.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue of the job, for policies with queues.")] = None,
    priority: JobPriority = None,
    deadline: JobDeadline = None,
    set_: Annotated[
        SetKeys,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any other key of a job, such as map.cpu=30s."),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the jobs have ended, and exit with 1 unless all succeeded."),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Wait until the jobs have ended, and copy their outputs to DIR/JOB/part-NNNNN.",
        ),
    ] = None,
) -> None:
    """Submit jobs to a running cluster, and print their ids.

    Example: schedbed submit lab --app wordcount --input books.txt --reduces 2 --wait
    """
    from schedbed.deploy.service.client import connect

    name, file = _name_and_file(what or [])
    job: dict[str, Any] = {"app": app, "name": job_name, "input": input_ and _input(input_), "maps": maps}
    job |= {"reduces": reduces, "user": user, "queue": queue, "priority": priority, "deadline": deadline}
    job = {key: value for key, value in job.items() if value is not None}
    if file is None and app is None:
        raise BadInput("submit: expected --app APP or a file of jobs (.yaml), such as: --app pi")
    if file is not None and (job or set_):
        raise BadInput(f"submit {file}: expected a file or the options of one job, not both")
    job = _with_sets(job, set_ or [])
    cluster = connect(name)
    jobs = cluster.submit_all([job]) if file is None else cluster.submit_file(file)
    for each in jobs:
        typer.echo(each.job)
    if wait or save is not None:
        _follow(jobs, save)


def _follow(jobs: list[Any], save: Path | None) -> None:
    from schedbed.deploy.service.client import wait_for

    def ended(job: Any, status: Mapping[str, Any]) -> None:
        took = (
            f" after {status['finish_s'] - status['submit_s']:.1f} s"
            if status["finish_s"] is not None
            else ""
        )
        why = f": {status['reason']}" if status["reason"] else ""
        typer.echo(f"{job.job} {status['name']} {status['state']}{took}{why}")
        if save is not None and status["state"] == "succeeded":
            for path in job.save(save):
                typer.echo(str(path))

    if not wait_for(jobs, ended):
        raise RunFailed("not all jobs have succeeded")


def status(name: Name = None, json_: AsJson = False) -> None:
    """Show the running clusters, or one cluster with its nodes, users and jobs.

    Example: schedbed status lab
    """
    from schedbed.deploy.service.show import show_status

    show_status(name, as_json=json_)


def kill(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] JOB...",
            help="Name of the cluster, if several are running, and the ids of the jobs, such as job_0001.",
        ),
    ],
) -> None:
    """Kill jobs of a running cluster. Jobs that have ended are ignored.

    Example: schedbed kill lab job_0002
    """
    from schedbed.deploy.service.client import connect

    named = not what[0].startswith("job_")
    if named and len(what) == 1:
        raise BadInput(f"kill {what[0]}: expected the id of a job, such as job_0001")
    cluster = connect(what[0] if named else None)
    for job in [cluster.job(each) for each in what[named:]]:
        job.kill()


def _complete_fault(incomplete: str) -> list[str]:
    """Complete keys of faults, such as `kill`."""
    from schedbed.cluster.faults import entry_keys

    return [key for key in entry_keys() if key.startswith(incomplete)]


def _list_faults(wanted: bool) -> None:
    """Print an example and a description of each fault kind and exit, if `wanted` is True."""
    from schedbed.cluster.faults import KINDS

    if wanted:
        width = max(len(kind.example) for kind in KINDS.values())
        for kind in KINDS.values():
            typer.echo(f"{kind.example:{width}}  {kind.about}")
        raise typer.Exit


def fault(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] FAULT",
            help="Kind of fault and its target, such as kill n3, or a mapping as in a scenario, such "
            "as '{kill: n3, for: 30s}'.",
            autocompletion=_complete_fault,
        ),
    ],
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Duration of the fault, such as 30s, not multiplied by scale. By default until the "
            "cluster is shut down.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any other key of the fault, such as cpu=0.3."),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option(
            "--list", callback=_list_faults, is_eager=True, help="List all kinds of faults, and exit."
        ),
    ] = False,
) -> None:
    """Inject a fault into a running cluster. All kinds of faults that a scenario can list are possible.

    Example: schedbed fault lab kill n3 --for 30s
    """
    from schedbed.deploy.service.client import connect

    name, given = _name_and_fault(what)
    if for_ is not None:
        given["for"] = for_
    given = _with_sets(given, set_ or [])
    told = connect(name).fault(given)
    end = "" if told["until"] is None else f" until {told['until']:.1f} s"
    typer.echo(f"{told['kind']} {told['target']} at {told['t']:.1f} s{end}".replace("  ", " "))


def change(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME] PARAMETERS",
            help="Name of the cluster, if several are running, and new values as a YAML mapping, such as "
            "'{queues: {prod: {capacity: 50}}}'.",
        ),
    ],
) -> None:
    """Change parameters of a running cluster's policy: bids (dp) or queues (capacity). The rest keeps its values.

    Example: schedbed change lab '{accounts: {ana: {bid: 5}}}'
    """
    from schedbed.deploy.service.client import connect

    if len(what) > 2:
        raise BadInput(
            f"change {' '.join(what)}: expected a mapping, such as '{{accounts: {{ana: {{bid: 5}}}}}}'"
        )
    given = _yaml_mapping(what[-1], "change", "{queues: {prod: {capacity: 50}}}")
    typer.echo(f"changed at {connect(what[0] if len(what) == 2 else None).change(given):.1f} s")


def down(
    name: Name = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="Shut down all of your clusters, and remove what your crashed runs left behind."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the running jobs have ended, instead of killing them.")
    ] = False,
) -> None:
    """Shut down a cluster: kill its jobs and complete its result files.

    Example: schedbed down lab
    """
    from schedbed.deploy.service.show import show_down

    if all_ and name is not None:
        raise BadInput(f"down {name} --all: expected a name or --all, not both")
    show_down(name, everything=all_, wait=wait)


# ------------------------------------------------------------------------------------------- command-line words


def _name_and_file(what: list[str]) -> tuple[str | None, Path | None]:
    """Return cluster and job file among the words, None if missing. Raises BadInput."""
    files = [word for word in what if word.endswith(JOB_FILES)]
    names = [word for word in what if word not in files]
    if len(files) > 1 or len(names) > 1:
        raise BadInput(
            f"submit {' '.join(what)}: expected at most a cluster's name and a file of jobs (.yaml)"
        )
    return next(iter(names), None), Path(files[0]) if files else None


def _name_and_fault(what: list[str]) -> tuple[str | None, dict[str, Any]]:
    """Return cluster, or None, and fault: `kill n3`, `partition n1,n2` or a YAML mapping."""
    if what[-1].lstrip().startswith("{") and len(what) <= 2:
        return what[0] if len(what) == 2 else None, _yaml_mapping(what[-1], "fault")
    if len(what) not in (2, 3):
        hint = "expected a kind and its target, such as: kill n3, or a mapping"
        raise BadInput(f"fault {' '.join(what)}: {hint}")
    nodes = what[-1].split(",")
    return what[0] if len(what) == 3 else None, {what[-2]: nodes if len(nodes) > 1 else nodes[0]}


def _input(text: str) -> Any:
    """Convert `--input` to a job's key `input`: a file name, `generate=text,size=64MiB`, or YAML in braces."""
    if text.startswith("{"):
        return _yaml_mapping(text, "--input")
    if not text.startswith("generate="):
        return text
    return _with_sets({}, text.split(","))


def _yaml_mapping(text: str, where: str, example: str = "{kill: n3, for: 30s}") -> dict[str, Any]:
    from schedbed.deploy.scenario.yaml_file import load_text

    value = load_text(text, where).value
    if not isinstance(value, dict):
        raise BadInput(f"{where} {text}: expected a mapping, such as {example}")
    return value


def _with_sets(given: dict[str, Any], sets: list[str]) -> dict[str, Any]:
    from schedbed.deploy.scenario.yaml_file import apply_set, from_values

    document = from_values(given)
    for setting in sets:
        apply_set(document, setting)
    return document.value
