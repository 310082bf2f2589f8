"""The first random numbers of many generators of `tasks.chance`, which are Mersenne Twisters.

They depend on only a few of the 624 words that Python makes from a seed. Several generators' words are
computed side by side, by one instruction for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from schedbed.scheduler.simulate.compiled.arrays import Values
from schedbed.scheduler.simulate.compiled.jit import CONFIG, compiled, entry
from schedbed.tasks.chance import generator_of

LANES = 64
"""The number of generators that are computed side by side."""
SIZE, MIDDLE = 624, 397
MOST_DRAWS = (SIZE - MIDDLE) // 2
"""The number of random numbers of a generator that can be computed from the words of its seed alone."""
FIRST = np.uint32(1812433253)
MIX, MIX_AGAIN = np.uint32(1664525), np.uint32(1566083941)
UPPER, LOWER, TWIST = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
TEMPER_B, TEMPER_C = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
ONE, TOP = np.uint32(1), np.uint32(30)
SHIFT_U, SHIFT_S, SHIFT_T, SHIFT_L = np.uint32(11), np.uint32(7), np.uint32(15), np.uint32(18)
SHIFT_HIGH, SHIFT_LOW = np.uint32(5), np.uint32(6)
HIGH, UNIT = 67108864.0, 1.0 / 9007199254740992.0


def first_draws(keys: Sequence[bytes], count: int) -> Values:
    """Return the first `count` numbers of each generator. `keys` are of `chance.keys_of`."""
    return draws_of(keys, np.full(len(keys), count, np.int64))


def draws_of(keys: Sequence[bytes], counts: Values) -> Values:
    """Return the first `counts` random numbers of each generator, as `first_draws` does."""
    if CONFIG.DISABLE_JIT:
        each = zip(map(generator_of, keys), counts.tolist(), strict=True)
        return np.array([luck.random() for luck, count in each for _ in range(count)], float)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    ends = np.cumsum(counts, dtype=np.int64)
    draws = np.empty(int(ends[-1]) if len(ends) else 0)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        words = _words([keys[place] for place in places.tolist()], length)
        fill_draws(_start(), words, ends[places] - counts[places], ends[places], draws)
    return draws


def _words(keys: Sequence[bytes], length: int) -> Values:
    """Return the 32-bit words of each key, a column each, the lowest first."""
    found = np.zeros((len(keys), -(-length // 4) * 4), np.uint8)
    found[:, :length] = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), length)[:, ::-1]
    return np.ascontiguousarray(found.view("<u4").astype(np.uint32).T)


@cache
def _start() -> Values:
    """Return a generator's words before its key is mixed in."""
    words = [19650218]
    for place in range(1, SIZE):
        words.append((int(FIRST) * (words[-1] ^ words[-1] >> 30) + place) & 0xFFFFFFFF)
    return np.array(words, np.uint32)


@compiled
def _mixed(first: Any, second: Any, middle: Any) -> Any:
    """Return a word of the next round, of the word at its place and two later ones."""
    mixed = (first & UPPER) | (second & LOWER)
    return np.uint32(middle ^ (mixed >> ONE) ^ (mixed & ONE) * TWIST)


@compiled
def _output(word: Any) -> Any:
    """Return the output for a word of the state."""
    word ^= word >> SHIFT_U
    word ^= (word << SHIFT_S) & TEMPER_B
    word ^= (word << SHIFT_T) & TEMPER_C
    return np.uint32(word ^ (word >> SHIFT_L))


@compiled
def _number(first: Any, second: Any) -> float:
    """Return the random number of two words of the state."""
    return ((_output(first) >> SHIFT_HIGH) * HIGH + (_output(second) >> SHIFT_LOW)) * UNIT


@compiled
def _fill_first(state: Any, lane: int, draws: Any) -> None:
    """Store the first random numbers, at most `MOST_DRAWS`, of the generator in the column `lane`."""
    for number in range(len(draws)):
        place = 2 * number
        later = place + MIDDLE
        first = _mixed(state[place, lane], state[place + 1, lane], state[later, lane])
        second = _mixed(state[place + 1, lane], state[place + 2, lane], state[later + 1, lane])
        draws[number] = _number(first, second)


@compiled
def _fill_any(words: Any, draws: Any) -> None:
    """Store any number of random numbers of the generator with the state `words`, which changes."""
    at = SIZE
    for number in range(len(draws)):
        if at == SIZE:
            for place in range(SIZE):
                follows, later = (place + 1) % SIZE, (place + MIDDLE) % SIZE
                words[place] = _mixed(words[place], words[follows], words[later])
            at = 0
        draws[number] = _number(words[at], words[at + 1])
        at += 2


@entry
def fill_draws(start: Values, keys: Values, begins: Values, ends: Values, draws: Values) -> None:
    """Store each generator's first numbers in `draws`, from `begins` to `ends`. Columns of `keys` are keys' words."""
    words, count = keys.shape
    state = np.empty((SIZE, LANES), np.uint32)
    key = np.zeros((words, LANES), np.uint32)
    for low in range(0, count, LANES):
        lanes = min(LANES, count - low)
        for word in range(words):
            for lane in range(lanes):
                key[word, lane] = keys[word, low + lane] + np.uint32(word)
        for lane in range(LANES):
            state[0, lane] = start[0]
        turn = 0
        for place in range(1, SIZE):
            for lane in range(LANES):
                past = state[place - 1, lane]
                state[place, lane] = (start[place] ^ ((past ^ (past >> TOP)) * MIX)) + key[turn, lane]
            turn = turn + 1 if turn + 1 < words else 0
        for lane in range(LANES):
            past = state[SIZE - 1, lane]
            state[1, lane] = (state[1, lane] ^ ((past ^ (past >> TOP)) * MIX)) + key[turn, lane]
        for place in range(2, SIZE):
            for lane in range(LANES):
                past = state[place - 1, lane]
                mixed = state[place, lane] ^ ((past ^ (past >> TOP)) * MIX_AGAIN)
                state[place, lane] = mixed - np.uint32(place)
        for lane in range(LANES):
            past = state[SIZE - 1, lane]
            state[1, lane] = (state[1, lane] ^ ((past ^ (past >> TOP)) * MIX_AGAIN)) - ONE
            state[0, lane] = UPPER
        for lane in range(lanes):
            own = draws[begins[low + lane] : ends[low + lane]]
            if len(own) <= MOST_DRAWS:
                _fill_first(state, lane, own)
            else:
                _fill_any(state[:, lane].copy(), own)
