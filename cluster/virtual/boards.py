"""The announced map outputs of a job, as known to the reduces on one node."""

from __future__ import annotations

from schedbed.cluster.messages import MapOutput, MapOutputs


class AnnouncedOutputs:
    """A job's announced map outputs, `latest` by map. `lost` counts those of them that will be replaced."""

    __slots__ = ("all_done", "latest", "lost")

    def __init__(self) -> None:
        self.latest: dict[int, MapOutput] = {}
        self.lost = 0  # Number of lost outputs in `latest`.
        self.all_done = False

    @property
    def complete(self) -> bool:
        return self.all_done and not self.lost

    def hear(self, news: MapOutputs) -> None:
        """Add newly announced map outputs, which replace earlier outputs of the same maps."""
        latest = self.latest
        for output in news.outputs:
            before = latest.get(output.index)
            if before is not None and before.lost:
                self.lost -= 1
            latest[output.index] = output
            if output.lost:
                self.lost += 1
        self.all_done = news.all_done
