"""Preparation of jobs for a live cluster: upload of input files, and specifications with block locations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedbed.cluster.blocks.dataplane import DataPlane
from schedbed.cluster.blocks.loader import upload_all
from schedbed.cluster.doors import Send, make_stub
from schedbed.cluster.masters import MasterGone, NameNodeDoor
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.live.driver_door import DriverDoor
from schedbed.deploy.live.ray_cluster import RayCluster
from schedbed.scheduler.driver import Plan
from schedbed.tasks.appkit.app_catalogue import app_of
from schedbed.tasks.specs import BlockRange, JobSpec, NodeId
from schedbed.tasks.workloads.planned import InputFile, PlannedJob, build_job

RETRY_S = 0.5
PATIENCE_S = 60.0
"""Seconds after which a call to a master that does not answer fails."""


class JobLoader:
    """A loader that uploads the inputs of jobs and makes the jobs' specifications for the JobTracker.

    Uploads have no rate limit and are not measured. `peers` maps nodes to the URLs of their agents and may
    change. `name_node` and `job_tracker` are objects whose methods call the masters. A call is repeated while
    the master is down, until `close`. Several threads may use the loader at once.
    """

    def __init__(self, cluster: RayCluster, config: RunConfig, peers: Mapping[NodeId, str]) -> None:
        self._config = config
        self._peers = peers
        self._closed = False
        self.name_node = make_stub(NameNodeDoor, self._patient(cluster.masters.to_name_node))
        self.job_tracker = make_stub(DriverDoor, self._patient(cluster.masters.to_job_tracker))

    def close(self) -> None:
        """Stop the repetition of calls to masters that are down. Such calls then raise MasterGone."""
        self._closed = True

    def _patient(self, send: Send) -> Send:
        """Return a function that calls a master by `send`, and repeats the call while the master is down.

        The returned function raises MasterGone after `PATIENCE_S` seconds, or after `close`.
        """

        async def send_again(method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
            give_up_s = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return await send(method, args, named)
                except MasterGone:
                    if self._closed or time.monotonic() > give_up_s:
                        raise
                    await asyncio.sleep(RETRY_S)

        return send_again

    def upload(self, files: Sequence[InputFile]) -> None:
        """Upload input files into the block store, which spreads them over the nodes.

        Raises BadInput for a wrong input, BlockStoreError if the upload fails, or MasterGone if the NameNode
        is down.
        """
        settings = self._config.cluster.blocks
        asyncio.run(
            upload_all(files, self.name_node, self._peers, self._config.token, settings, self._config.tls)
        )

    def plan(self, jobs: Iterable[PlannedJob], paths: Iterable[str]) -> Plan:
        """Return the specifications of the jobs together with the block locations of their input files.

        `paths` are the paths of all files that the jobs read.
        """
        raw = {path: asyncio.run(self.name_node.locate(path)) for path in paths}
        files = {
            path: tuple(BlockRange(**{**block, "nodes": tuple(block["nodes"])}) for block in blocks)
            for path, blocks in raw.items()
        }

        def built(planned: PlannedJob) -> JobSpec:
            derived = self._derived(planned, raw.get(planned.input or "", []))
            return build_job(planned, files.__getitem__, derived)

        return Plan(jobs=tuple(built(planned) for planned in jobs), files=files)

    def _derived(self, planned: PlannedJob, blocks: list[dict[str, Any]]) -> Mapping[str, Any]:
        """Return the parameters that the job's application computes from the input, such as the key ranges of
        a sort.

        `blocks` are the blocks of the input file.
        """
        derive = app_of(planned).derive
        if derive is None:
            return {}
        length = sum(block["length"] for block in blocks)
        return derive(
            lambda at, size: self._read(blocks, at, size), length, planned.reduces, self._config.seed
        )

    def _read(self, blocks: list[dict[str, Any]], offset: int, size: int) -> bytes:
        async def read() -> bytes:
            async with DataPlane(self._peers, self._config.token, self._config.tls) as plane:
                return b"".join([piece async for piece in plane.read(blocks, offset, offset + size)])

        return asyncio.run(read())
