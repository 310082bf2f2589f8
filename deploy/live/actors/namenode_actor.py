"""The Ray actor of the NameNode."""

from __future__ import annotations

from typing import Any

from schedbed.cluster.blocks.namenode import NameNode
from schedbed.cluster.blocks.served_namenode import served
from schedbed.cluster.masters import NameNodeDoor, make_table
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.live.actors.actor_base import MasterActor, MasterService


class NameNodeActor(MasterActor):
    """The actor of the NameNode. It reads names and blocks from a journal after a restart; nodes report replicas."""

    NAME = "namenode"
    DOOR = NameNodeDoor
    _names: NameNodeDoor | None = None
    _web: Any = None

    async def _make(self, config: RunConfig) -> MasterService:
        names = NameNode(
            config.work / "namenode.sqlite",
            seed=config.seed,
            order=[node.node for node in config.cluster.nodes],
        )
        self._names = served(names, config.clock())

        async def stop() -> None:
            names.shutdown()

        return MasterService(make_table(NameNodeDoor, self._names), stop)

    async def serve_web(self, port: int) -> str:
        """Serve WebHDFS on a port of the loopback interface until the run ends. Return the root URL."""
        from schedbed.cluster.webhdfs.rest_call import PREFIX, BlockStore
        from schedbed.cluster.webhdfs.webhdfs import WebHdfs

        config = self._config()
        await self._service_of_run()
        assert self._names is not None
        settings = config.cluster.blocks
        store = BlockStore(self._names, config.token, settings, config.clock(), config.tls)
        self._web = await WebHdfs(store).serve(port, config.ports)
        return f"http://127.0.0.1:{self._web.addresses[0][1]}{PREFIX}"

    async def end(self) -> None:
        """Stop WebHDFS and the service of the current run."""
        if self._web is not None:
            await self._web.cleanup()
            self._web = None
        await super().end()
