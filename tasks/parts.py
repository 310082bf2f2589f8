"""The parts into which the policy DTSS cuts a map's split: their bytes, costs, and order of outputs.

Only maps with reduces are cut: each output file of a map-only job may be a document, as in etl.
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.tasks.specs import Cost, Split, value


@value
class Part:
    """The bytes [offset, offset + length) of the split `whole`. The first part has the split's index."""

    whole: Split
    offset: int
    length: int

    @property
    def is_first(self) -> bool:
        return self.offset == self.whole.offset

    @property
    def after(self) -> int | None:
        """Return the index of the map whose records precede those of this part, or None for the first part."""
        return None if self.is_first else self.whole.index

    @property
    def share(self) -> float:
        return self.length / self.whole.length

    def of(self, total: int) -> int:
        """Return the part's whole-number share of `total`. All parts' shares add up to it."""
        begin, length = self.offset - self.whole.offset, self.whole.length
        return total * (begin + self.length) // length - total * begin // length

    def split(self, index: int) -> Split:
        """Return the part as a split of its own for task `index`."""
        return replace(self.whole, index=index, offset=self.offset, length=self.length)

    def cost(self, whole: Cost) -> Cost:
        """Return the cost of the part as a synthetic map, given the cost `whole` of the whole split."""
        return Cost(
            cpu_s=whole.cpu_s * self.share,
            read_bytes=self.of(whole.read_bytes),
            write_bytes=self.of(whole.write_bytes),
            duration_s=None if whole.duration_s is None else whole.duration_s * self.share,
        )


def cut(whole: Split, share: float) -> tuple[Part, Part] | None:
    """Cut a split, the first part having `share` of the bytes, or return None if a part would be empty."""
    length = int(whole.length * share)
    if not 0 < length < whole.length:
        return None
    end = whole.offset + length
    return Part(whole, whole.offset, length), Part(whole, end, whole.length - length)
