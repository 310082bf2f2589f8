"""The inputs that all simulated runs of one command share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedbed.cluster.virtual.latencies import Latencies
from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.task_costs import ScenarioCosts
from schedbed.scheduler.simulate.setup import CpuFactors

if TYPE_CHECKING:
    from schedbed.deploy.simulated.recorded_costs import RecordedCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputs:
    """The inputs that all simulated runs of one command share, as for `setup_of`."""

    scenario: ResolvedScenario
    costs: ScenarioCosts | RecordedCosts
    latencies: Latencies
    cpu_factors: CpuFactors
    as_live: bool
