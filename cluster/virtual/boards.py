"""What a node's reduces have been told of a job's map outputs."""

from __future__ import annotations

from schedbed.cluster.messages import MapOutput, MapOutputs


class Board:
    """The latest output of each map of a job, in the order of their first mention; a lost one awaits another."""

    __slots__ = ("all_done", "latest", "lost")

    def __init__(self) -> None:
        self.latest: dict[int, MapOutput] = {}
        self.lost = 0  # of `latest`
        self.all_done = False

    @property
    def complete(self) -> bool:
        """Tell whether every output that will be needed is known."""
        return self.all_done and not self.lost

    def hear(self, news: MapOutputs) -> None:
        """Take what is new."""
        latest = self.latest
        for output in news.outputs:
            before = latest.get(output.index)
            if before is not None and before.lost:
                self.lost -= 1
            latest[output.index] = output
            if output.lost:
                self.lost += 1
        self.all_done = news.all_done
