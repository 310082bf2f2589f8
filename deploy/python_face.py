"""What `schedbed` offers to Python programs: `run` with its `Result`, and `connect`; loaded at first use."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from schedbed.deploy.scenario.resolved import ResolvedScenario
    from schedbed.deploy.service.client import Cluster
    from schedbed.scheduler.policy import Policy

Machines = Literal["process", "docker", "sim"]
"""What nodes are made of: processes, containers, or virtual time."""

NOTEBOOK_STYLE = """<style>
.schedbed td { text-align: right } .schedbed .best { font-weight: bold }
.schedbed .ci, .schedbed .diff { margin-left: 0.5em; opacity: 0.6 }
</style>"""


class Result:
    """A finished run: its tables as pandas frames, its summary and its report, read from `folder` when asked for.

    Without `out` the folder is a temporary one, which is removed with the last reference to the result.
    """

    def __init__(self, folder: Path, *, temporary: bool = False) -> None:
        self.folder = folder
        self._tables: dict[str, pd.DataFrame] = {}
        self._summary: dict[str, Any] | None = None
        if temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def jobs(self) -> pd.DataFrame:
        """Return a row for each job."""
        return self._table("jobs")

    @property
    def attempts(self) -> pd.DataFrame:
        """Return a row for each task attempt."""
        return self._table("attempts")

    @property
    def heartbeats(self) -> pd.DataFrame:
        """Return a row for each heartbeat."""
        return self._table("heartbeats")

    @property
    def decisions(self) -> pd.DataFrame:
        """Return a row for each offer of a slot, with the policy's answer and reason."""
        return self._table("decisions")

    @property
    def blocks(self) -> pd.DataFrame:
        """Return a row for each replica of a block."""
        return self._table("blocks")

    @property
    def faults(self) -> pd.DataFrame:
        """Return a row for each injected fault."""
        return self._table("faults")

    @property
    def summary(self) -> dict[str, Any]:
        """Return the content of summary.json: every figure of every policy, with intervals."""
        from schedbed.deploy.results.summary import load

        if self._summary is None:
            self._summary = load(self.folder)
        return self._summary

    @property
    def trusted(self) -> bool:
        """Return whether the host gave the emulated cluster what the scenario declares; `summary` says why not."""
        return bool(self.summary["fidelity"]["trusted"])

    def report(self) -> Path:
        """Make report.html and the plots; return the path of report.html."""
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
        """Return the comparison of the policies for a notebook."""
        from schedbed.deploy.results.page.report_tables import comparison_html

        return f'{NOTEBOOK_STYLE}<div class="schedbed">{comparison_html(self.summary)}</div>'

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
    """Run a scenario under each policy and return what was measured. Raises BadInput and RunFailed.

    `scenario` is a path, the name of a shipped scenario, a mapping as in a file, or a resolved scenario. Instead of the
    scenario's own values count those of `policies`, `nodes`, `scale`, `repeats`, `seed` and `sets` (KEY=VALUE texts).
    A policy is a SPEC as on the command line, a class, or an object. A simulation copies the object for each run. A
    live run imports the class's file in another process and needs, for an object, a dataclass of plain values.

    `address` is that of a Ray cluster to run on, with `tls` between its hosts. `out` keeps the results, also of a
    failed run, `private` from other users, `keep_outputs` with the jobs' outputs. `check` compares these with what they
    must be, `show` prints as `run`.
    """
    from schedbed.cluster.machines.make import KINDS
    from schedbed.deploy.scenario.own_policies import live_spec
    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.whole_run import RunOptions, run_scenario
    from schedbed.tasks.errors import BadInput

    if machines not in (kinds := (*KINDS, "sim")):
        raise BadInput(f"machines={machines!r}: unknown kind of machine, expected one of {', '.join(kinds)}")
    resolved = resolve(
        scenario, sets=sets, policies=policies, nodes=nodes, scale=scale, repeats=repeats, seed=seed
    )
    if machines != "sim":
        for policy in policies or ():
            if not isinstance(policy, str | Mapping):
                live_spec(policy)
    folder = _temporary_folder() if out is None else Path(out)
    kept: dict[str, Any] = {"out": folder, "keep_outputs": keep_outputs, "private": private}
    where: dict[str, Any] = {"machines": machines, "address": address, "tls": tls}
    options = RunOptions(**kept, **where, live=show, check=check, plots=out is not None)
    try:
        with contextlib.nullcontext() if show else contextlib.redirect_stdout(io.StringIO()):
            run_scenario(resolved, options)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Result(folder, temporary=out is None)


def _temporary_folder() -> Path:
    """Make the folder of a result; first remove those of programs that were killed."""
    from schedbed.deploy.workspace import owned, sweep

    sweep(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=owned("result-")))


def connect(name: str | None = None) -> Cluster:
    """Return the cluster of this user with that name, or the only one that `schedbed up` keeps up.

    Its `submit({...})` returns a job to `wait` for and read the `outputs` of. Raises BadInput when there is none,
    RunFailed when it has gone by itself.
    """
    from schedbed.deploy.service.client import connect

    return connect(name)
