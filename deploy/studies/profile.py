"""`schedbed profile`: run a job alone with 1 to N map slots per node, and save profiles of the best run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from schedbed.cluster.spec import NodeSpec
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions
from schedbed.deploy.own.own_apps import read_app
from schedbed.deploy.results.learn import (
    SHORTEST_S,
    demands,
    measured_rates,
    phase_profile,
    resource_profile,
)
from schedbed.deploy.results.metrics import RunTables, select
from schedbed.deploy.results.record_check import open_record
from schedbed.deploy.scenario.check import did_you_mean
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.whole_run import run_scenario
from schedbed.deploy.workspace import owned
from schedbed.scheduler.admission.fgcs import DEMAND, IO_RATES
from schedbed.scheduler.history import read_tables
from schedbed.scheduler.models.resource_profiles import RESOURCES, ResourceProfile
from schedbed.scheduler.models.same_workload import SYNTHETIC, workload_of
from schedbed.scheduler.policies.aria import PROFILES as PHASES
from schedbed.scheduler.policies.aria import profile_name
from schedbed.scheduler.profiles import ProfileStore, default_store
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.class_source import class_of
from schedbed.tasks.own.program import files_of, is_app_file
from schedbed.tasks.units import format_duration, format_rate
from schedbed.tasks.workloads.planned import PlannedJob

IO_RATES_TEST = "io-rates"  # Given instead of an application.
IO_TEST_S = 2.0  # Seconds of reading or writing at the declared rate.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """The options of `schedbed profile`.

    `most` is the largest number of map slots per node to try (None: twice the cores). `store` is the file for
    the profiles, `out` keeps the runs' results. With `clear`, profiles are only deleted.
    """

    machines: str = "process"
    most: int | None = None
    store: Path | None = None
    out: Path | None = None
    clear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The measurements of one run in which a job was alone on a cluster with `slots` map slots per node."""

    slots: int
    completion_s: float
    tables: RunTables


def profile(scenario: ResolvedScenario, app: str, options: ProfileOptions) -> None:
    """Run each job of an application alone, and save its resource use and phase times.

    `app` may also name jobs, or be `io-rates` to measure disks. Only the first of several copies of a job is
    run. Raises BadInput if there is no such job, RunFailed if a run does not succeed.
    """
    if app == IO_RATES_TEST:
        io_rates(scenario, options)
        return
    jobs = chosen(scenario, app)
    store = ProfileStore(options.store or default_store())
    if options.clear:
        forget(store, jobs)
        return
    nodes = {node.node: node for node in scenario.cluster.nodes}
    most = options.most or 2 * max(node.cores for node in nodes.values())
    with _folder(options.out) as folder:
        for job in jobs:
            trials = [trial(scenario, job, slots, options, folder) for slots in range(1, most + 1)]
            best = min(trials, key=lambda each: (each.completion_s, each.slots))
            resources = resource_profile(
                best.tables,
                job,
                nodes,
                replication=scenario.cluster.blocks.replication,
                scale=scenario.scale,
            )
            _save(store, scenario, job, best, resources, nodes)
            _show(job, trials, best, resources)
    print(f"Profiles: {store.path}")


def forget(store: ProfileStore, jobs: Sequence[PlannedJob]) -> None:
    """Delete the measurements of these jobs and their copies.

    Policies that learn from earlier runs then treat the next run as the first (liu2015, section 2.2.1).
    """
    for job in jobs:
        for kind, name in (
            (RESOURCES, workload_of(job)),
            (DEMAND, workload_of(job)),
            (PHASES, profile_name(job)),
        ):
            store.clear(kind, name)
        print(f"{workload_of(job)}: forgotten")
    print(f"Profiles: {store.path}")


def io_rates(scenario: ResolvedScenario, options: ProfileOptions) -> None:
    """Save a single task's rates of reading and writing: the inputs of equation 3 in liu2015.

    They are measured separately for the local disk and the block store.
    """
    store = ProfileStore(options.store or default_store())
    nodes = {node.node: node for node in scenario.cluster.nodes}
    tests = io_tests(scenario)
    rates: dict[str, dict[str, float]] = {}
    with _folder(options.out) as folder:
        for job in tests.jobs:
            run = trial(tests, job, 1, options, folder).tables
            for disk, rate in measured_rates(run, nodes).items():
                rates.setdefault(disk, {})[f"{job.name}_bps"] = rate
    for disk, values in rates.items():
        store.save(IO_RATES, disk, values)
        print(f"{disk}: " + ", ".join(f"{name} {format_rate(rate)}" for name, rate in values.items()))
    print(f"Profiles: {store.path}")


def io_tests(scenario: ResolvedScenario) -> ResolvedScenario:
    """Return a scenario with two jobs that only do I/O, with one map per node.

    One writes map output; the other reads and writes the block store. Cores have full host speed, so that the
    disk alone limits.
    """
    nodes = scenario.cluster.nodes
    size = round(IO_TEST_S * min(node.disk_bps for node in nodes))
    common = {"app": SYNTHETIC, "maps": len(nodes)}
    jobs = [
        {**common, "name": "disk", "map": {"write": size}, "reduces": len(nodes)},
        {**common, "name": "hdfs", "map": {"read": size, "write": size}, "reduces": 0},
    ]
    given = {**scenario.given, "workload": {"jobs": jobs}, "scale": 1, "faults": [], "policies": ["fifo"]}
    tests = resolve(given, base=scenario.base)
    fast = tuple(replace(node, core_speed=1.0) for node in tests.cluster.nodes)
    return replace(tests, cluster=replace(tests.cluster, nodes=fast))


def chosen(scenario: ResolvedScenario, app: str) -> list[PlannedJob]:
    """Return the jobs of this application or name, without copies. Raises BadInput if there is none."""
    found: dict[str, PlannedJob] = {}
    for job in scenario.jobs:
        if app in (job.app, job.name, workload_of(job)) or _same_class(scenario, job, app):
            found.setdefault(workload_of(job), job)
    if not found:
        there = dict.fromkeys(
            [job.app for job in scenario.jobs] + [workload_of(job) for job in scenario.jobs]
        )
        raise BadInput(f"--app {app}: no job of the scenario is of it, {did_you_mean(app, there)}")
    return list(found.values())


def _same_class(scenario: ResolvedScenario, job: PlannedJob, app: str) -> bool:
    """Return whether `app` is a path such as `path/to/app.py:NAME` to the job's class."""
    source = class_of(job.params)
    if source is None or not is_app_file(app):
        return False
    asked, real = read_app(app, Path.cwd())
    file = next(file for file in files_of(job.params) if file.name == source.file)
    return asked.name == source.name and str(real) == scenario.input(file.path).real_path


def alone(scenario: ResolvedScenario, job: PlannedJob, slots: int) -> ResolvedScenario:
    """Return the scenario with only this job, `slots` map slots per node and no faults."""
    nodes = tuple(replace(node, map_slots=slots) for node in scenario.cluster.nodes)
    return replace(
        scenario,
        name=f"{scenario.name}-{workload_of(job)}-{slots}",
        repeats=1,
        cluster=replace(scenario.cluster, nodes=nodes),
        jobs=(replace(job, submit_s=0.0, deadline_s=None, after=None),),
        inputs=tuple(file for file in scenario.inputs if file.path in job.reads),
        policies=(PolicyChoice(spec="fifo", given="fifo"),),
        faults=(),
        speculation="none",
    )


def trial(
    scenario: ResolvedScenario, job: PlannedJob, slots: int, options: ProfileOptions, folder: Path
) -> Trial:
    """Run a job alone. Raises RunFailed if it does not succeed."""
    out = folder / f"{workload_of(job)}-{slots}"
    quiet = StringIO()
    try:
        with redirect_stdout(quiet):
            run_scenario(
                alone(scenario, job, slots).without_learning(),
                RunOptions(out=out, machines=options.machines, live=False, check=False),
            )
    except RunFailed as error:
        raise RunFailed(f"{job.name} with {slots} map slots a node: {error}") from None
    run = open_record(out)
    tables = select(read_tables(out), run.nodes, "fifo", 0)
    row = tables.jobs.iloc[0]
    completion_s = float(row["finish"] - row["submit"])
    print(f"{job.name}: {slots} map slots a node, {format_duration(completion_s)}", flush=True)
    return Trial(slots=slots, completion_s=completion_s, tables=tables)


def _save(
    store: ProfileStore,
    scenario: ResolvedScenario,
    job: PlannedJob,
    best: Trial,
    resources: ResourceProfile,
    nodes: Mapping[str, NodeSpec],
) -> None:
    """Save the profiles of the run `best` under the job's name, which its copies share.

    Unless it is synthetic, its resources are also saved under the application's name.
    """
    workload = workload_of(job)
    for name in dict.fromkeys([workload] + ([job.app] if job.app != SYNTHETIC else [])):
        store.save(RESOURCES, name, resources.to_values())
    found = demands(best.tables, job, nodes, SHORTEST_S * scenario.scale)
    store.save(DEMAND, workload, found.to_values())
    store.save(PHASES, profile_name(job), phase_profile(best.tables, scenario.scale).to_json())


def _show(job: PlannedJob, trials: Sequence[Trial], best: Trial, found: ResourceProfile) -> None:
    fastest = f"{best.slots} map slots a node ({format_duration(best.completion_s)})"
    table = Table(header_style="bold", box=SIMPLE_HEAD, title_justify="left")
    table.title = f"{job.name} ({job.app}): fastest of {len(trials)} with {fastest}; percent of a node"
    for name in ("task", "CPU", "I/O", "memory"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for name, amounts in (
        ("map", found.map),
        ("shuffle, a map", found.shuffle),
        ("reduce", found.reduce),
    ):
        table.add_row(name, *(f"{value:.2f}" for value in amounts))
    Console(highlight=False).print(table)


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Yield `out` or else a temporary folder."""
    with tempfile.TemporaryDirectory(prefix=owned("profile-")) if out is None else nullcontext(out) as path:
        yield Path(path)
