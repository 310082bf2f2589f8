"""The public Python functions `schedbed.run` and `schedbed.connect`, and the class `Result`."""

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
    """The results of a finished run: tables as pandas frames, the summary and the report.

    `folder` holds the results; each table is read at its first use. If `run` was called without `out`, the folder is
    temporary and removed with the last reference to the result. Times in the tables are seconds since the run's start,
    sizes bytes, CPU core-seconds of the host. Reading raises BadInput if a file of the folder has changed or
    is missing.
    """

    def __init__(self, folder: Path, *, temporary: bool = False) -> None:
        self.folder = folder
        self._tables: dict[str, pd.DataFrame] = {}
        self._summary: dict[str, Any] | None = None
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def jobs(self) -> pd.DataFrame:
        """Return the jobs, one row each: user, submit, start and finish time, bytes, state."""
        return self._table("jobs")

    @property
    def attempts(self) -> pd.DataFrame:
        """Return the task attempts, one row each: node, locality, times, CPU, bytes, state."""
        return self._table("attempts")

    @property
    def heartbeats(self) -> pd.DataFrame:
        """Return the heartbeats, one row each: node, running tasks, resource use, service time."""
        return self._table("heartbeats")

    @property
    def decisions(self) -> pd.DataFrame:
        """Return the policy's decisions, one row for each offer of a slot: job, task, answer, reason."""
        return self._table("decisions")

    @property
    def blocks(self) -> pd.DataFrame:
        """Return the block replicas, one row each: node, bytes, times of creation and removal, cause."""
        return self._table("blocks")

    @property
    def faults(self) -> pd.DataFrame:
        """Return the injected faults, one row each: time, kind, target, end."""
        return self._table("faults")

    @property
    def summary(self) -> dict[str, Any]:
        """Return the content of summary.json: all metrics of each policy, with confidence intervals over repeats."""
        from schedbed.deploy.results.summary import load

        if self._summary is None:
            self._summary = load(self.folder)
        return self._summary

    @property
    def trusted(self) -> bool:
        """Return whether the host provided the rates that the scenario declares.

        If not, `summary["fidelity"]["why"]` gives the reasons. A simulated run is trusted unless a limit was exceeded.
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
        """Return the comparison of the policies and the lanes of their slots, as HTML for a notebook."""
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
    """Run a scenario under each policy and return the measured results.

    Arguments other than the scenario replace the scenario's own values where they are given.

    scenario: path of a YAML file, name of a shipped scenario, mapping with the keys of a scenario file, or resolved
        scenario.
    policies: each a SPEC as on the command line, a mapping as in a scenario, a policy class or a policy object. An
        object is copied for each simulated run; a live run imports the class's file in another process, so the object
        must be a dataclass of plain values.
    machines: `process`, `docker` or `sim` (simulated, needs no other process).
    address: address of a Ray cluster to run on instead of this host. tls: encrypt connections between its hosts.
    nodes, scale, repeats, seed: as the scenario's keys `cluster.nodes`, `scale`, `repeats` and `seed`.
    sets: texts `KEY=VALUE`, each sets a value of the scenario, such as `blocks.replication=2`.
    out: folder for the results, also of a failed run; a temporary folder if None.
    keep_outputs: copy the jobs' output files into the folder. private: make the folder unreadable for other users.
    check: check the jobs' outputs. show: print progress and the comparison, as `schedbed run` does.

    Raises BadInput for wrong arguments or a wrong scenario, RunFailed when a job fails or an output is wrong.

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
    """Raise BadInput for a class or object that another process cannot import."""
    from schedbed.deploy.scenario.own_policies import live_spec

    for policy in policies:
        if not isinstance(policy, str | Mapping):
            live_spec(policy)


@contextlib.contextmanager
def _folder_of(out: str | Path | None) -> Generator[Path]:
    """Yield the folder for results. A temporary one is removed after an error."""
    folder = _temporary_folder() if out is None else Path(out)
    try:
        yield folder
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _temporary_folder() -> Path:
    """Make a temporary folder for results. First remove such folders of programs that were killed."""
    from schedbed.deploy.workspace import owned, sweep

    sweep(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=owned("result-")))


def connect(name: str | None = None, *, token: str | None = None) -> Cluster:
    """Return a client of a cluster of this user that `schedbed up` keeps up.

    Without `name` there must be exactly one cluster. `Cluster.submit` submits a job; the returned job has `wait`,
    `state` and `outputs`. For a cluster of another user, `name` is its address (`http://127.0.0.1:PORT`) and `token`
    the token that its owner gave to this user; SCHEDBED_CLUSTER and SCHEDBED_TOKEN in the environment replace both.
    Raises BadInput if no such cluster exists, RunFailed if the cluster ended without `down`.

    Example: `schedbed.connect("lab").submit({"app": "wordcount", "input": "books.txt"}).wait()`
    """
    from schedbed.deploy.service.client import connect

    return connect(name, token=token)
