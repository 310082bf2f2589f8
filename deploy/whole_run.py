"""A whole run: every policy in every repeat on a new emulated cluster, and then the result files."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.console import Console

from schedbed.deploy import hostwatch
from schedbed.deploy.failures import RunFailed
from schedbed.deploy.options import RunOptions, no_interrupts
from schedbed.deploy.recorded_form import recorded_form
from schedbed.deploy.results.html_report import rebuild
from schedbed.deploy.results.learn import learn
from schedbed.deploy.results.record_check import failures
from schedbed.deploy.results.runfile import NAME, RunFile
from schedbed.deploy.results.summary import impossible_rows, load
from schedbed.deploy.results.table import show
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.workspace import locked, result_folder
from schedbed.scheduler.core.snapshots import no_collections
from schedbed.scheduler.profiles import named_store
from schedbed.scheduler.registry.policy_spec import is_policy_file
from schedbed.scheduler.registry.registry import COSTS, PROFILES, reads_store, sizes_read_by
from schedbed.scheduler.sizes import TRUE_SIZES, make_sizes
from schedbed.tasks.errors import BadInput

if TYPE_CHECKING:
    from schedbed.deploy.watch.page_server import LivePage

REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "allow larger files (ulimit -f)",
}
"""By the error of a write that found no room, how to make some."""


class Runs(Protocol):
    """All runs of one command (every policy in every repeat): `LiveRuns` or `SimRuns`."""

    SUBMITS: ClassVar[bool]  # Whether jobs can be submitted during a run.

    def run_all(self, folder: Path, record: RunFile, watch: LivePage | None = None) -> None:
        """Run every policy in every repeat, also after a failed run.

        Rows are written to `folder`, and a description of each run is added to `record`.
        """
        ...


MakeRuns = Callable[[ResolvedScenario, RunOptions], Runs]


Beside = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that adds policies to a summary before the table is printed."""


def run_scenario(
    scenario: ResolvedScenario,
    options: RunOptions,
    make_runs: MakeRuns | None = None,
    beside: Beside | None = None,
) -> Path:
    """Run the scenario under each of its policies. Return the folder with the results.

    `make_runs` does the runs, by default live or simulated as `options.machines` requires. `beside` adds
    policies, such as an earlier run's, to the summary before the comparison is printed. Raises BadInput,
    before the start, for a wrong scenario or options, and RunFailed if a job or the cluster failed, with
    measurements kept. After Ctrl-C, it cleans up and raises KeyboardInterrupt.
    """
    for choice in scenario.policies:
        # Policies in files are built when the scenario is resolved.
        if choice.make is not None or not is_policy_file(choice.spec):
            choice.build(scale=scenario.scale, store=scenario.profiles.store)
    if options.machines != "sim":
        check_framework(scenario)
    _tell_what_is_known(scenario)
    tell_who_reads_sizes(scenario)
    runs = (make_runs or runs_on(options.machines))(scenario, options)
    started = datetime.now(UTC)
    folder = result_folder(options.out, scenario.name, started, private=options.private)
    with (
        _not_left_empty(folder),
        locked(folder),
        _full_disk_fails(folder),
        _page(folder, runs, options) as watch,
    ):
        record = _run_file(scenario, options, started)
        record.save(folder)
        try:
            runs.run_all(folder, record, watch)
            if options.slowdowns:
                record.isolated_s = isolated(scenario, options)
            record.save(folder)
        finally:
            if record.runs:
                record = finish(folder, record, report=options.report, plots=options.plots, beside=beside)
            else:  # No run has started.
                (folder / NAME).unlink()
    _tell_what_differed(record)
    if scenario.profiles.learn:
        learnt = learn(folder, record, scenario)
        print(f"Profiles: {named_store(scenario.profiles.store)} ({', '.join(learnt) or 'nothing new'})")
    failed = [*failures(folder, record), *impossible_rows(load(folder))]
    if failed:
        raise RunFailed("; ".join(failed))
    return folder


def check_framework(scenario: ResolvedScenario) -> None:
    """Raise BadInput for costs of the framework that a live run cannot have: those of a reduce's shuffle."""
    framework = scenario.framework
    for key, is_set in (
        ("fetch_rate", framework.fetch_rate > 0),
        ("recorded_shuffle", framework.recorded_shuffle),
    ):
        if is_set:
            raise BadInput(
                f"framework: {key}: only simulated, expected --machines sim, or a value without it"
            )


def isolated(scenario: ResolvedScenario, options: RunOptions) -> dict[str, float]:
    """Return the seconds that each job takes alone on the cluster, simulated on this host.

    The simulator is imported here, since a live run needs it for nothing else. After a live run, jobs are
    simulated one after the other, since a process with threads must not fork.
    """
    from schedbed.deploy.side_by_side import all_cores
    from schedbed.deploy.simulated.isolated import isolated_times

    at_once = options.jobs or (1 if options.address is None else all_cores())
    return isolated_times(scenario, at_once if options.machines == "sim" else 1)


def _tell_what_is_known(scenario: ResolvedScenario) -> None:
    """Print which policies read profiles of earlier runs; on a host without these, they decide differently."""
    store = scenario.profiles.store
    readers = [
        choice.spec for choice in scenario.policies if choice.make is None and reads_store(choice.given)
    ]
    if readers and store != "none" and named_store(store).is_file():
        print(f"Profiles of earlier runs: {named_store(store)}, read by {', '.join(readers)}")


def tell_who_reads_sizes(scenario: ResolvedScenario) -> None:
    """Print, if true sizes are hidden, which policies read sizes and which use profiles instead."""
    sizes = make_sizes(scenario.sizes)
    if sizes == TRUE_SIZES:
        return
    found: list[str] = []
    for choice in scenario.policies:
        if choice.make is not None and not is_policy_file(str(choice.given)):
            continue
        read = sizes_read_by(choice.given)
        if COSTS in read:
            found.append(f"{choice.spec} reads them ({read[COSTS]})")
        elif PROFILES in read and scenario.profiles.store != "none":
            found.append(f"{choice.spec} has its own from profiles of earlier runs")
    how = f"estimated with error {sizes.error:g}" if sizes.kind == "estimated" else sizes.kind
    print(f"Sizes: costs of tasks are {how}; {'; '.join(found) or 'no policy of this run reads any'}")


def _tell_what_differed(record: RunFile) -> None:
    """Print notes about the journal, the log from which a restarted JobTracker continues.

    The policy answered differently when it was replayed, or it could not be shortened, since the state could
    not be saved.
    """
    for run in record.runs:
        for note in ("replay", "journal"):
            if note in run.findings:
                print(f"note: {run.policy}: {run.findings[note]}", file=sys.stderr)


def finish(
    folder: Path, record: RunFile, *, report: bool = True, plots: bool = False, beside: Beside | None = None
) -> RunFile:
    """Make the result files of a run, and print the comparison of the policies.

    Return `record`, as saved, with the facts about the tables. `beside` adds policies to the summary before
    the print.
    """
    with no_interrupts():
        record = rebuild(folder, record.as_loaded(), with_report=report, with_plots=plots)
    made = load(folder)
    show(made if beside is None else beside(made), Console())
    for run in record.runs:
        if run.state == "interrupted":
            print(
                f"{run.policy}, repeat {run.repeat + 1}: interrupted, so the values are those of a part of the run"
            )
    for part in record.left_out:
        print(f"damaged and left out: {part}")
    look = f"open {folder / 'report.html'}" if report else f"schedbed report {folder} makes the report"
    print(f"Results: {folder}  ({look})")
    return record


def _page(folder: Path, runs: Runs, options: RunOptions) -> AbstractContextManager[LivePage | None]:
    """Return a server of the live page or, unless requested, nothing, without importing its modules."""
    if options.web is None:
        return nullcontext()
    from schedbed.deploy.watch.page_server import watching

    return watching(options.web, folder, submits=runs.SUBMITS, read_only=options.read_only)


def runs_on(machines: str) -> MakeRuns:
    """Return `SimRuns` for `sim`, else `LiveRuns`. A simulation starts without importing Ray."""
    if machines == "sim":
        from schedbed.deploy.simulated.simulated_runs import SimRuns

        return SimRuns
    from schedbed.deploy.live.live_runs import LiveRuns

    return LiveRuns


def _run_file(scenario: ResolvedScenario, options: RunOptions, started: datetime) -> RunFile:
    with no_collections():
        values, text = recorded_form(scenario)
    record = RunFile(
        scenario=values,
        policies=[choice.spec for choice in scenario.policies],
        repeats=scenario.repeats,
        seed=scenario.seed,
        jobs=[job.job for job in scenario.jobs],
        machines=options.machines,
        versions=hostwatch.versions(),
        host=hostwatch.describe_host(),
        wall_start=started.isoformat(timespec="seconds"),
    )
    record.keep_text(text)
    return record


@contextmanager
def _not_left_empty(folder: Path) -> Iterator[None]:
    """Remove the folder after the `with` block if the folder is empty."""
    try:
        yield
    finally:
        with suppress(OSError):
            folder.rmdir()


@contextmanager
def _full_disk_fails(folder: Path) -> Iterator[None]:
    """Convert an OSError for a full disk to RunFailed. Files are kept, for `schedbed report`."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is None:
            raise
        where = error.filename or folder
        raise RunFailed(f"{where}: {error.strerror}; {remedy}, then: schedbed report {folder}") from None
