"""A user's policy in a confined process: its files are copied to where the process may read, and the process ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from schedbed.deploy.scenario.resolved import PolicyChoice, ResolvedScenario
from schedbed.deploy.simulated.sent_runs import contents_of, file_of, moved_to, temporary_folder
from schedbed.scheduler.core.settings import CoreConfig
from schedbed.scheduler.isolated.remote_policy import (
    ConfinedProcess,
    IsolatedSetup,
    RemotePolicy,
    missing_promises,
)
from schedbed.scheduler.simulate.setup import Setup
from schedbed.tasks.errors import BadInput

_CHECKED_APART: set[bool] = set()


def isolate() -> list[str]:
    """Check policies of files in confined processes from now on. Return a line for each promise not kept here."""
    _CHECKED_APART.add(True)
    return [f"note: --isolated: {line}" for line in missing_promises()]


def forget() -> None:
    """Undo `isolate`."""
    _CHECKED_APART.clear()


def is_isolated() -> bool:
    """Return whether `isolate` was called, here or before this process was forked."""
    return bool(_CHECKED_APART)


@contextmanager
def confined_setup(setup: Setup, choice: PolicyChoice, scenario: ResolvedScenario) -> Iterator[Setup]:
    """Yield the setup of a simulation with the policy of the choice in a confined process."""
    if any(fault.kind == "crash_jobtracker" for fault in setup.faults):
        raise BadInput(
            "--isolated: a crash of the JobTracker cannot be simulated with it, expected other faults"
        )
    config = setup.framework.core_config(
        setup.cluster.heartbeat_s, setup.sizes, records_skips=setup.skip_rows
    )
    with _confined(choice.given, scenario.scale, scenario.speculation, config, setup.seed) as process:
        yield replace(setup, policy=partial(RemotePolicy, process))


def check_confined(given: Any) -> None:
    """Build a policy once in a confined process. Raises PolicyFailed if that fails."""
    with _confined(given, 1.0, "none", CoreConfig(), 0) as process:
        RemotePolicy(process)


@contextmanager
def _confined(
    given: Any, scale: float, speculation: Any, config: CoreConfig, seed: int
) -> Iterator[ConfinedProcess]:
    path = file_of(given)
    assert path is not None
    try:
        contents = contents_of(path)
    except OSError as error:
        raise BadInput(f"policy {given!r}: {path}: {error.strerror}") from None
    with temporary_folder() as folder:
        folder.chmod(0o755)
        moved = moved_to(folder, given, contents)
        process = ConfinedProcess(
            IsolatedSetup(
                given=moved,
                folder=str(folder),
                scale=scale,
                speculation=speculation,
                config=config,
                seed=seed,
            )
        )
        try:
            yield process
        finally:
            process.close()
