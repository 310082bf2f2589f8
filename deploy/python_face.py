"""The functions that `schedbed` offers to Python programs; the package itself loads them at first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from schedbed.deploy.scenario.resolved import ResolvedScenario
    from schedbed.deploy.service.client import Cluster


def run(
    scenario: str | Path | Mapping[str, Any] | ResolvedScenario,
    *,
    policies: Sequence[Any] | None = None,
    machines: str = "process",
    address: str | None = None,
    out: str | Path | None = None,
    keep_outputs: bool = False,
    check: bool = True,
    **overrides: Any,
) -> dict[str, pd.DataFrame]:
    """Runs a scenario (a path, a mapping as in the file, or a resolved one); returns the tables by name.

    `policies` replaces the scenario's; `machines` is process or sim; `address` is that of a Ray cluster to run on;
    `out` keeps the run's folder (else it goes with the call); `check` says whether outputs are checked; `overrides`
    are the command line's: nodes, scale, repeats, seed. Raises BadInput and RunFailed.
    """
    import tempfile

    from schedbed.deploy.scenario.resolve import resolve
    from schedbed.deploy.whole_run import RunOptions, run_scenario
    from schedbed.scheduler.history import read_tables

    resolved = resolve(scenario, policies=policies, **overrides)
    with tempfile.TemporaryDirectory(prefix="schedbed-result-") as temporary:
        folder = Path(out) if out is not None else Path(temporary)
        options = RunOptions(
            out=folder,
            machines=machines,
            address=address,
            keep_outputs=keep_outputs,
            live=False,
            check=check,
        )
        run_scenario(resolved, options)
        return read_tables(folder)


def connect(name: str | None = None) -> Cluster:
    """The cluster of this user with that name, or the only one that `schedbed up` keeps up.

    Its `submit({...})` returns a job to `wait` for and read the `outputs` of. Raises BadInput when there is none,
    RunFailed when it has gone by itself.
    """
    from schedbed.deploy.service.client import connect

    return connect(name)
