"""Parts of a split map: their bytes, their share of the costs, and the place of their output.

Only maps whose output goes to reduces are split, since a file of a map-only job may be a document of its own (etl).
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.tasks.specs import Cost, Split
from schedbed.tasks.values import value


@value
class Part:
    """The bytes [offset, offset + length) of a split. The first part keeps the index of the `whole`."""

    whole: Split
    offset: int
    length: int

    @property
    def is_first(self) -> bool:
        """Return whether the part begins where the whole begins."""
        return self.offset == self.whole.offset

    @property
    def after(self) -> int | None:
        """Return the index of the map whose records precede this part's; None for the first part."""
        return None if self.is_first else self.whole.index

    @property
    def share(self) -> float:
        """Return the part's bytes as a share of the whole's."""
        return self.length / self.whole.length

    def of(self, total: int) -> int:
        """Return the part's amount of the whole's `total`, in whole units. The amounts of all parts add up to
        `total`."""
        begin, length = self.offset - self.whole.offset, self.whole.length
        return total * (begin + self.length) // length - total * begin // length

    def split(self, index: int) -> Split:
        """Return the part as a split for task number `index`."""
        return replace(self.whole, index=index, offset=self.offset, length=self.length)

    def cost(self, whole: Cost) -> Cost:
        """Return the part's cost, given the cost of the whole synthetic map."""
        return Cost(
            cpu_s=whole.cpu_s * self.share,
            read_bytes=self.of(whole.read_bytes),
            write_bytes=self.of(whole.write_bytes),
            duration_s=None if whole.duration_s is None else whole.duration_s * self.share,
        )


def cut(whole: Split, share: float) -> tuple[Part, Part] | None:
    """Return the two parts, the first with that share of the bytes; None if one of them would be empty."""
    length = int(whole.length * share)
    if not 0 < length < whole.length:
        return None
    end = whole.offset + length
    return Part(whole, whole.offset, length), Part(whole, end, whole.length - length)
