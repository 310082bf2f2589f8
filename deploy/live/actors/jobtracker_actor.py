"""The Ray actor of the JobTracker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.cluster.masters import Masters, make_table
from schedbed.cluster.run_config import RunConfig
from schedbed.cluster.wire.endpoint import Endpoint
from schedbed.deploy.live.actors.actor_base import MasterActor, MasterService
from schedbed.deploy.live.driver_door import DriverDoor
from schedbed.scheduler.framework import Framework
from schedbed.scheduler.guard.call_record import bound_output, refuse_harm
from schedbed.scheduler.jobtracker import JobTracker
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.scheduler.sizes import make_sizes


class JobTrackerActor(MasterActor):
    """The actor of the JobTracker. After a restart, the first call continues the run from its journal."""

    NAME = "jobtracker"
    DOOR = DriverDoor
    NEEDS_CLOCK = True

    def __init__(self, control: str, place: Endpoint, masters: Masters) -> None:
        super().__init__(control, place)
        self._masters = masters

    async def _make(self, config: RunConfig) -> MasterService:
        refuse_harm()
        bound_output()
        tracker = JobTracker(
            config.cluster,
            lambda: with_speculation(
                build_policy(config.given, scale=config.scale, store=config.profiles),
                config.speculation,
                config.scale,
            ),
            self._masters.name_node,
            epoch_s=config.epoch_s,
            seed=config.seed,
            journal=config.work / "jobtracker.sqlite",
            sizes=make_sizes(config.sizes),
            framework=Framework(**(config.framework or {})),
        )
        door: DriverDoor = tracker
        return MasterService(make_table(DriverDoor, door), tracker.stop)

    async def _call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call the JobTracker on behalf of another process, after continuing the run if it was restarted."""
        if self._service is None and method != "start":
            await (await self._service_of_run()).calls["start"]()
        return await super()._call(method, arguments)
