"""Random whole numbers of many generators of `tasks.chance`, with compiled code."""

from __future__ import annotations

import numpy as np

from schedbed.scheduler.simulate.compiled.placing.twisters import first_draws
from schedbed.tasks.chance import chance, keys_of

DRAWS = 4
HIGH_BITS, LOW_BITS = 27, 26
"""A random number of `random()` is made of these numbers of bits of two words of the generator."""
TOO_MANY = 1 << LOW_BITS


def numbers_below(most: int, seed: int, name: str, count: int) -> list[int]:
    """Return `chance(seed, name, number).randrange(most)` for each number from 0 to `count` - 1.

    `most` is below `TOO_MANY`. A generator of Python takes the first bits of its words, one word after the other,
    until they are a number below `most`.
    """
    draws = first_draws(keys_of(seed, (name,), map(str, range(count))), DRAWS)
    bits = (draws.reshape(count, DRAWS) * 2.0 ** (HIGH_BITS + LOW_BITS)).astype(np.int64)
    high, low = bits >> LOW_BITS, bits % (1 << LOW_BITS)
    wanted = most.bit_length()
    words = np.stack([high >> (HIGH_BITS - wanted), low >> (LOW_BITS - wanted)], axis=2)
    words = words.reshape(count, 2 * DRAWS)
    fits = words < most
    found = words[np.arange(count), fits.argmax(axis=1)]
    for number in np.flatnonzero(~fits.any(axis=1)).tolist():
        found[number] = chance(seed, name, number).randrange(most)
    return found.tolist()
