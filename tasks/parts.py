"""Parts of a split map (made by the policy DTSS): their bytes, their share of costs, the order of outputs.

Only maps whose output goes to reduces are cut into parts, since each file of a map-only job may be a separate
document (etl).
"""

from __future__ import annotations

from dataclasses import replace

from schedbed.tasks.specs import Cost, Split
from schedbed.tasks.values import value


@value
class Part:
    """The bytes [offset, offset + length) of the split `whole`. The first part keeps the index of the
    split.
    """

    whole: Split
    offset: int
    length: int

    @property
    def is_first(self) -> bool:
        """Return whether the part begins at the beginning of the split."""
        return self.offset == self.whole.offset

    @property
    def after(self) -> int | None:
        """Return the index of the map whose records precede this part's records; None for the first part."""
        return None if self.is_first else self.whole.index

    @property
    def share(self) -> float:
        """Return the number of bytes in the part divided by the number in the whole split."""
        return self.length / self.whole.length

    def of(self, total: int) -> int:
        """Return the part's amount of `total`, the amount of the whole split, as an integer.

        The amounts of all parts of a split add up to `total`.
        """
        begin, length = self.offset - self.whole.offset, self.whole.length
        return total * (begin + self.length) // length - total * begin // length

    def split(self, index: int) -> Split:
        """Return the part as an independent split for the task number `index`."""
        return replace(self.whole, index=index, offset=self.offset, length=self.length)

    def cost(self, whole: Cost) -> Cost:
        """Return the part's cost, given the cost of the whole split as a synthetic map."""
        return Cost(
            cpu_s=whole.cpu_s * self.share,
            read_bytes=self.of(whole.read_bytes),
            write_bytes=self.of(whole.write_bytes),
            duration_s=None if whole.duration_s is None else whole.duration_s * self.share,
        )


def cut(whole: Split, share: float) -> tuple[Part, Part] | None:
    """Return a split in two parts, the first with `share` of the bytes; None if a part would be empty."""
    length = int(whole.length * share)
    if not 0 < length < whole.length:
        return None
    end = whole.offset + length
    return Part(whole, whole.offset, length), Part(whole, end, whole.length - length)
