"""The state of a simulated block store after the input files have been placed, before the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from schedbed.scheduler.simulate.setup import Setup
from schedbed.scheduler.simulate.storage import Storage
from schedbed.tasks.specs import JobSpec, id_key

if TYPE_CHECKING:
    from schedbed.scheduler.simulate.loading.task_tables import TaskTables


class PlacedInputs(NamedTuple):
    """A block store with the input files, and all jobs with the locations of their splits, by submit time.

    `tables` are those of the compiled loop, if they were made before the simulation.
    """

    storage: Storage
    jobs: list[JobSpec]
    tables: TaskTables | None = None


def place_inputs(setup: Setup) -> PlacedInputs:
    """Place the input files on the nodes. The result does not depend on the policy."""
    restarts = any(fault.kind == "restart_namenode" for fault in setup.faults)
    storage = Storage(setup.cluster, setup.seed, restarts=restarts)
    for node in setup.cluster.nodes:
        storage.register(0.0, node.node, node.rack, ())
    storage.load(setup.files)
    specs = storage.specs(setup.jobs)
    return PlacedInputs(storage, sorted(specs, key=lambda job: (job.submit_s, *id_key(job.job))))
