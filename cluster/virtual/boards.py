"""The map outputs of a job that were announced to a node's reduces."""

from __future__ import annotations

from schedbed.cluster.messages import MapOutput, MapOutputs


class Board:
    """The latest output of each map of a job, in the order of first mention. A lost output will be replaced."""

    __slots__ = ("all_done", "latest", "lost")

    def __init__(self) -> None:
        self.latest: dict[int, MapOutput] = {}
        self.lost = 0  # of `latest`
        self.all_done = False

    @property
    def complete(self) -> bool:
        """Return whether all needed outputs are known."""
        return self.all_done and not self.lost

    def hear(self, news: MapOutputs) -> None:
        """Add new outputs."""
        latest = self.latest
        for output in news.outputs:
            before = latest.get(output.index)
            if before is not None and before.lost:
                self.lost -= 1
            latest[output.index] = output
            if output.lost:
                self.lost += 1
        self.all_done = news.all_done
