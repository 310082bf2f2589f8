"""The names of part files: the policy, the repeat, and the number of the file."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path


def part_order(part: Path) -> tuple[str, int, int]:
    """Return a sort key for a part file: by policy, then by repeat, then by the number of the file."""
    slug, repeat, number = part.stem.rsplit("-", 2)
    return (slug, int(repeat), int(number))


def slug_of(policy: str) -> str:
    """Return a name for the policy that can be part of a file name.

    It contains a checksum, so that policies whose names differ only in punctuation have different file names.
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in policy)[:40]
    return f"{plain}_{zlib.crc32(policy.encode()):08x}"


def next_part_number(parts: Path, slug: str, repeat: int) -> int:
    """Return the number of the next part file of any table in the folder `parts`, for a policy and repeat.

    `slug` is the policy's name in file names.
    """
    numbers = [0]
    for part in parts.glob(f"*/{slug}-{repeat}-*.parquet"):
        with suppress(ValueError):
            numbers.append(part_order(part)[2] + 1)
    return max(numbers)
