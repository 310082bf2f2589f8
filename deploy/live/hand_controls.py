"""The controls of the live page: a user can kill a job or inject a fault while the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.deploy.live.fault_injector import FaultInjector
from schedbed.deploy.live.live_session import Session
from schedbed.deploy.scenario.planned_faults import fault_now
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput


def inject_by_hand(
    given: Any, scenario: ResolvedScenario, now_s: float, faults: FaultInjector
) -> dict[str, Any]:
    """Inject a fault in the format of a scenario's `faults`, from `now_s` or its `at` on. Raises BadInput.

    Return its kind, target, time and end.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f"fault: {given!r} is not a mapping, such as {{kill: n3, for: 30s}}")
    luck = chance(scenario.seed, "fault by hand", now_s).random()
    planned = fault_now(given, scenario.cluster, now_s=now_s, luck=luck)
    faults.add(planned)
    return {"kind": planned.kind, "target": planned.shown, "t": planned.at_s, "until": planned.until_s}


class HandControls:
    """The controls that a run offers to users of its live page."""

    def __init__(self, scenario: ResolvedScenario, session: Session, faults: FaultInjector) -> None:
        self._scenario, self._session, self._faults = scenario, session, faults

    def kill(self, job: str) -> None:
        """Kill the job with this id. Raises BadInput if the run has no such job."""
        if job not in {planned.job for planned in self._session.jobs}:
            raise BadInput(f"no job {job!r} in this run")
        self._session.kill([job], "killed from the live page")

    def fault(self, fault: Any) -> dict[str, Any]:
        """Inject a fault in the format of a scenario's `faults`. Return its kind, target, time and end."""
        return inject_by_hand(fault, self._scenario, self._session.duration_s, self._faults)

    def submit(self, request: dict[str, Any]) -> list[str]:
        """Raise BadInput: a run that compares policies needs the same jobs under each."""
        raise BadInput("submit: a run takes no more jobs, expected a cluster that stays up (schedbed up)")
