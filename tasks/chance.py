"""Random generators by name. The only file of the project that makes them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Coin = random.Random
"""The type of a generator, for who takes one."""


def chance(seed: int, *names: object) -> random.Random:
    """Return a generator that depends on the seed and the names only, the same in every process."""
    return random.Random(_key(seed, names))


def array_chance(seed: int, *names: object) -> np.random.Generator:
    """Return a generator of numpy arrays that depends on the seed and the names only. The numbers differ from those
    of `chance`."""
    import numpy as np  # an agent throws coins but needs no arrays, and starts in three quarters of the time without

    digest = np.frombuffer(_key(seed, names).encode(), dtype=np.uint8)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(b) for b in digest])))


def _key(seed: int, names: tuple[object, ...]) -> str:
    return "/".join([str(seed), *(str(name) for name in names)])
