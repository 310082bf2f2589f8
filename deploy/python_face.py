"""The public Python interface: the functions `run` and `connect`, and the class `Result`."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
import weakref
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from schedbed.deploy.scenario.resolved import ResolvedScenario
    from schedbed.deploy.service.client import Cluster
    from schedbed.scheduler.policy import Policy

Machines = Literal["process", "docker", "sim"]
"""Kinds of nodes: groups of processes, Docker containers, or none (`sim`: simulated in virtual time)."""


class Result:
    """The results of a finished run: the tables as pandas frames, the summary, and the report.

    Attributes: `folder` is the path of the folder with the results. `run` creates the results; if `run` is
    called without `out`, the folder is temporary and is removed with the last reference to the result.

    Tables: each property below reads one Parquet file at its first use. Each frame begins with the columns
    `policy` (the policy's specification as given) and `repeat` (from 0). Units: times are seconds since the
    run's start, sizes are bytes, CPU time is core-seconds of the host. With `stretch`, all times are emulated
    seconds. Missing values are NaN or `<NA>`. docs/reference/tables.md describes every column.

    Raises BadInput when a file of the folder is missing or has changed since the run.

    Example:

        >>> import schedbed
        >>> job = {"name": "a", "app": "synthetic", "maps": 4, "map": {"cpu": "10s"}}
        >>> scenario = {"name": "tiny", "cluster": {"nodes": 2}, "workload": {"jobs": [job]}}
        >>> result = schedbed.run(scenario, policies=["fifo"], machines="sim")
        >>> result.jobs[["job", "maps", "state"]].to_numpy().tolist()
        [['job_0001', 4, 'succeeded']]
        >>> result.trusted
        True
    """

    def __init__(self, folder: Path, *, temporary: bool = False) -> None:
        self.folder = folder
        self._tables: dict[str, pd.DataFrame] = {}
        self._summary: dict[str, Any] | None = None
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def jobs(self) -> pd.DataFrame:
        """Return the jobs, one row per job.

        Columns: job (id), name, user, queue, app, submit, start, finish, deadline (seconds), maps, reduces
        (counts), input_bytes, output_bytes, state (`succeeded`, `failed`, `killed` or `timeout`).
        """
        return self._table("jobs")

    @property
    def attempts(self) -> pd.DataFrame:
        """Return the ended task attempts, one row per attempt.

        Columns: the ids of job, task, attempt, node and rack; kind (`map` or `reduce`); locality (`node`,
        `rack` or `off`); the times assigned, start, shuffle_end, sort_end and end (seconds); cpu_s
        (core-seconds); the bytes read, shuffled, spilled and written; state and reason.
        """
        return self._table("attempts")

    @property
    def heartbeats(self) -> pd.DataFrame:
        """Return the heartbeats, one row per heartbeat.

        Columns: t (seconds), node, running_maps, running_reduces, cpu_util, disk_util, net_util (shares of
        the node's declared rates, from 0 to 1), memory_bytes, service_s (seconds that the JobTracker took to
        answer).
        """
        return self._table("heartbeats")

    @property
    def decisions(self) -> pd.DataFrame:
        """Return the decisions of the policy, one row per answer to an offered slot.

        Columns: t (seconds), node, job, task (empty if a whole job was skipped), kind (`map` or `reduce`),
        answer (`launch`, `split`, `skip`, `reject` or `kill`), reason (text).
        """
        return self._table("decisions")

    @property
    def blocks(self) -> pd.DataFrame:
        """Return the block replicas, one row per replica.

        Columns: block, file, node, bytes, added, removed (seconds; missing while the replica exists), cause
        (why the replica was created, such as `write` or `repair`).
        """
        return self._table("blocks")

    @property
    def faults(self) -> pd.DataFrame:
        """Return the injected faults, one row per fault.

        Columns: t (seconds), kind, target, until (seconds; missing if the fault has no end).
        """
        return self._table("faults")

    @property
    def summary(self) -> dict[str, Any]:
        """Return the content of summary.json as a dictionary.

        `summary["policies"][name]` has all metrics of a policy. A metric is a dictionary with `mean`, `ci95`
        (the 95% confidence interval, None below three repeats) and `repeats` (one value per repeat).
        """
        from schedbed.deploy.results.summary import load

        if self._summary is None:
            self._summary = load(self.folder)
        return self._summary

    @property
    def trusted(self) -> bool:
        """Return whether the host provided the rates that the scenario declares, so that the results are
        valid.

        If not, `summary["fidelity"]["why"]` lists the reasons as sentences. A simulated run is trusted unless
        a node exceeded a declared rate or the run ended before all jobs did.
        """
        return bool(self.summary["fidelity"]["trusted"])

    def report(self) -> Path:
        """Write report.html and the plots into `folder`. Return the path of report.html."""
        from schedbed.deploy.results.html_report import NAME, rebuild

        rebuild(self.folder)
        return self.folder / NAME

    def __repr__(self) -> str:
        policies = ", ".join(self.summary["policies"])
        return f"<schedbed.Result of {self.summary['scenario']} under {policies}, in {self.folder}>"

    def __str__(self) -> str:
        from schedbed.deploy.results.table import plain

        return plain(self.summary)

    def _repr_html_(self) -> str:
        """Return the comparison table and a plot of the slots over time, as HTML for a notebook."""
        from schedbed.deploy.notebook_view import result_html

        return result_html(self.folder, self.summary)

    def _table(self, name: str) -> pd.DataFrame:
        from schedbed.deploy.results.record_check import open_record
        from schedbed.scheduler.history import read_table

        if not self._tables:
            open_record(self.folder)
        if name not in self._tables:
            self._tables[name] = read_table(self.folder, name)
        return self._tables[name]


def run(
    scenario: str | Path | Mapping[str, Any] | ResolvedScenario,
    *,
    policies: Sequence[str | Mapping[str, Any] | type[Policy] | Policy] | None = None,
    machines: Machines = "process",
    address: str | None = None,
    tls: bool = False,
    nodes: int | None = None,
    scale: float | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    keep_outputs: bool = False,
    private: bool = False,
    check: bool = True,
    show: bool = False,
) -> Result:
    """Run a scenario under each of its policies and return the results when all runs have ended.

    scenario: a YAML file's path, a shipped scenario's name, a scenario as a mapping, or a `ResolvedScenario`.
    policies: replaces the scenario's policies. Each is a SPEC as for `--policy` (such as `fair`), a mapping,
        a policy class, or a policy object. Live runs need a class from a file, or an object of a dataclass
        with plain values. Simulations copy an object for each run.
    machines: the kind of nodes: `process` or `docker` for a live run, `sim` for a simulation in virtual time.
    address: the address of a Ray cluster to run on instead of this host (`host:port` or `auto`).
    tls: whether to encrypt the connections between the hosts of the Ray cluster.
    nodes, scale, repeats, seed: replace the scenario's `cluster.nodes`, `scale`, `repeats` and `seed`.
    sets: changes of single scenario values as `KEY=VALUE`, such as `blocks.replication=2`.
    out: the folder for the results, also of a failed run; None for a temporary folder.
    keep_outputs: whether to copy the output files of the jobs into the folder.
    private: whether to make the folder unreadable for other users.
    check: whether to check the outputs of the jobs after a live run.
    show: whether to print the progress and the comparison, as `schedbed run` does.

    Raises BadInput for wrong arguments or a wrong scenario, RunFailed if a job, a check or the cluster fails.

    Example:

        >>> import schedbed
        >>> result = schedbed.run("quickstart", policies=["fair"], machines="sim", repeats=3)
        >>> result.jobs.groupby("repeat").size().tolist()
        [10, 10, 10]
    """
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.whole_run import RunOptions, run_scenario

    _check_machines(machines)
    resolved = resolve(
        scenario, sets=sets, policies=policies, nodes=nodes, scale=scale, repeats=repeats, seed=seed
    )
    if machines != "sim":
        _check_live_policies(policies or ())
    with _folder_of(out) as folder:
        kept: dict[str, Any] = {"out": folder, "keep_outputs": keep_outputs, "private": private}
        where: dict[str, Any] = {"machines": machines, "address": address, "tls": tls}
        options = RunOptions(**kept, **where, live=show, check=check)
        with contextlib.nullcontext() if show else contextlib.redirect_stdout(io.StringIO()):
            run_scenario(resolved, options)
    return Result(folder, temporary=out is None)


def _check_machines(machines: str) -> None:
    from schedbed.cluster.machines.make import KINDS
    from schedbed.tasks.errors import BadInput

    if machines not in (kinds := (*KINDS, "sim")):
        raise BadInput(f"machines={machines!r}: unknown kind of machine, expected one of {', '.join(kinds)}")


def _check_live_policies(policies: Sequence[str | Mapping[str, Any] | type[Policy] | Policy]) -> None:
    """Raise BadInput if a policy is a class or object that a live run cannot import in another process."""
    from schedbed.deploy.own.own_policies import live_spec

    for policy in policies:
        if not isinstance(policy, str | Mapping):
            live_spec(policy)


@contextlib.contextmanager
def _folder_of(out: str | Path | None) -> Generator[Path]:
    """Yield the folder for the results: `out`, or a new temporary folder if `out` is None.

    The temporary folder is removed if the `with` block raises an exception.
    """
    folder = _temporary_folder() if out is None else Path(out)
    try:
        yield folder
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _temporary_folder() -> Path:
    """Create a temporary folder for results and return its path.

    The temporary folders of dead processes are removed first.
    """
    from schedbed.deploy.workspace import owned, sweep

    sweep(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=owned("result-")))


def connect(name: str | None = None, *, token: str | None = None) -> Cluster:
    """Return a client of a running cluster that was started by `schedbed up`.

    The client's method `submit` submits a job and returns an object with `wait()`, `state` and `outputs()`.

    name: the name of a cluster of this user, or the address of another user's cluster
        (`http://127.0.0.1:PORT`). None: the environment variable SCHEDBED_CLUSTER, or, if it is not set, the
        only running cluster of this user.
    token: the token that the cluster's owner gave to this user. It is needed for an address only. None: the
        environment variable SCHEDBED_TOKEN.

    Raises BadInput if no such cluster is up, if several clusters are up and none is named, if the address is
    not on the loopback interface, or if the token is missing. Raises RunFailed if the cluster failed or was
    killed. An address is first contacted by a method of the client.

    Example:

        >>> import schedbed
        >>> lab = schedbed.connect("http://127.0.0.1:5555", token="secret")
        >>> lab.name
        'http://127.0.0.1:5555'

    With a cluster that is up (`schedbed up SCENARIO --name lab`):

        lab = schedbed.connect("lab")
        job = lab.submit({"app": "wordcount", "input": "books.txt", "reduces": 2})
        if job.wait() == "succeeded":
            print({part: len(data) for part, data in job.outputs().items()})
    """
    from schedbed.deploy.service.client import connect

    return connect(name, token=token)
