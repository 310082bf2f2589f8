"""The map outputs of a job that were announced to the reduces on a node."""

from __future__ import annotations

from schedbed.cluster.messages import MapOutput, MapOutputs


class Board:
    """The announced map outputs of one job: the latest output of each map, in order of announcement.

    `lost` is the number of outputs in `latest` that were lost and will be replaced.
    """

    __slots__ = ("all_done", "latest", "lost")

    def __init__(self) -> None:
        self.latest: dict[int, MapOutput] = {}
        self.lost = 0  # Number of lost outputs in `latest`.
        self.all_done = False

    @property
    def complete(self) -> bool:
        """Return whether the outputs of all maps are known and none is lost."""
        return self.all_done and not self.lost

    def hear(self, news: MapOutputs) -> None:
        """Add newly announced map outputs."""
        latest = self.latest
        for output in news.outputs:
            before = latest.get(output.index)
            if before is not None and before.lost:
                self.lost -= 1
            latest[output.index] = output
            if output.lost:
                self.lost += 1
        self.all_done = news.all_done
