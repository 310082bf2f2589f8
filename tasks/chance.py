"""Random generators that depend only on a seed and on names. All of the project are created here."""

from __future__ import annotations

import random
from collections.abc import Iterable
from hashlib import sha512
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Coin = random.Random
"""The type of a generator, for annotations."""


def chance(seed: int, *names: object) -> random.Random:
    """Return a random generator whose numbers depend only on `seed` and `names`, in every process."""
    return random.Random(_key(seed, names))


def reseed(generator: random.Random, seed: int, *names: object) -> None:
    """Make a generator give the numbers of `chance(seed, *names)`. Faster than a new one."""
    generator.seed(_key(seed, names))


def keys_of(seed: int, names: tuple[object, ...], each: Iterable[str], *last: object) -> list[bytes]:
    """Return the keys of `chance(seed, *names, name, *last)` for each name, the highest byte first.

    A key seeds such a generator. Compiled code computes many generators' numbers from keys.
    """
    begin, end = f"{_key(seed, names)}/", "".join(f"/{name}" for name in last)
    texts = [f"{begin}{name}{end}".encode() for name in each]
    return [text + sha512(text).digest() for text in texts]


def generator_of(key: bytes) -> random.Random:
    return random.Random(int.from_bytes(key))


def array_chance(seed: int, *names: object) -> np.random.Generator:
    """Return a numpy generator that depends only on the arguments; its numbers differ from `chance`'s."""
    import numpy as np  # Without numpy an agent starts in three quarters of the time.

    digest = np.frombuffer(_key(seed, names).encode(), dtype=np.uint8)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(b) for b in digest])))


def _key(seed: int, names: tuple[object, ...]) -> str:
    return "/".join([str(seed), *(str(name) for name in names)])
