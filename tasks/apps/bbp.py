"""Hexadecimal digits of pi by the Bailey-Borwein-Plouffe formula, as in Hadoop's bbp example.

Each group of eight is computed exactly: fractions are multiples of 2^-64, and more bits are used if rounding
could affect a digit.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law, Work
from schedbed.tasks.appkit.counting import merged_counts, write_lines
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, lines_of, shown
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import CountLines, encode_counts

GROUP_DIGITS = 8
GROUP_BITS = 4 * GROUP_DIGITS
BITS = 64
MORE_BITS = 192
TAIL_TERMS = 16  # Terms after the first digit; each is about 1/16 of the previous one.
TERMS_AT_ONCE = 1 << 16
GROUP_TERMS = 1000  # Fixed cost of a group, as a number of terms.
START_MAX = 2**28  # Above it, products of remainders would not fit 64 bits.
SERIES = ((1, 4), (4, -2), (5, -1), (6, -1))  # pi = sum over k of 16^-k (4/(8k+1) - 2/(8k+4) - ...)
DIGITS_CHECKED = 500_000  # Digits beyond this one are only counted by the check.

Numbers = npt.NDArray[np.uint64]


def group_at(first: int) -> int:
    """Return eight hexadecimal digits of pi as a number, after `first` digits behind the point."""
    value = sum(factor * _fraction(first, j) for j, factor in SERIES)
    return _cut(value, first, BITS, GROUP_BITS) if _sure(value, first, BITS) else _exactly(first)


def _fraction(first: int, j: int) -> int:
    """Return the fraction, in 2^-64, of the sum over k of 16^(first - k) / (8k + j). Terms round down."""
    total = 0
    for low in range(0, first + 1, TERMS_AT_ONCE):
        k = np.arange(low, min(low + TERMS_AT_ONCE, first + 1), dtype=np.uint64)
        modulus = 8 * k + np.uint64(j)
        high, rest = np.divmod(_power(16, first - k, modulus) << np.uint64(32), modulus)
        total += int(np.sum((high << np.uint64(32)) | ((rest << np.uint64(32)) // modulus)))
    return total + sum((1 << BITS) // (16**past * (8 * (first + past) + j)) for past in range(1, TAIL_TERMS))


def _power(base: int, exponents: Numbers, moduli: Numbers) -> Numbers:
    """Return `base` to the power of each exponent, modulo the corresponding modulus. All moduli must be below 2^32."""
    result, square = np.uint64(1) % moduli, np.uint64(base) % moduli
    while exponents.any():
        result = np.where(exponents & np.uint64(1), result * square % moduli, result)
        square = square * square % moduli
        exponents = exponents >> np.uint64(1)
    return result


def _exactly(first: int) -> int:
    bits = MORE_BITS
    while True:
        value = 0
        for j, factor in SERIES:
            terms = ((pow(16, first - k, 8 * k + j) << bits) // (8 * k + j) for k in range(first + 1))
            tail = ((1 << bits) // (16**past * (8 * (first + past) + j)) for past in range(1, bits // 4))
            value += factor * (sum(terms) + sum(tail))
        if _sure(value, first, bits):
            return _cut(value, first, bits, GROUP_BITS)
        bits *= 2


def _sure(value: int, first: int, bits: int) -> bool:
    """Return whether the eight digits in `value` (2^-`bits`) are certain although terms were rounded."""
    most = 4 * (first + bits)
    return _cut(value - most, first, bits, GROUP_BITS) == _cut(value + most, first, bits, GROUP_BITS)


def _cut(value: int, first: int, bits: int, wanted: int) -> int:
    return (value % (1 << bits)) >> (bits - wanted)


def groups_of(start: int, digits: int, maps: int) -> list[range]:
    """Return each map's groups of eight digits: about equal work, as later digits need more terms."""
    count = -(-digits // GROUP_DIGITS)

    def terms(groups: int) -> int:
        return groups * (start + GROUP_TERMS) + GROUP_DIGITS * groups * (groups - 1) // 2

    cuts = [bisect_left(range(count + 1), terms(count) * part / maps, key=terms) for part in range(maps + 1)]
    return [range(low, high) for low, high in pairwise(cuts)]


def _map(task: MapTask) -> None:
    start, digits = task.params["start"], task.params["digits"]
    if not 1 <= start <= start + digits <= START_MAX:
        raise BadInput(f"bbp: digits {start} to {start + digits - 1} of pi, expected 1 to {START_MAX - 1}")
    count, reduces = -(-digits // GROUP_DIGITS), task.spec.reduces
    found: list[dict[bytes, int]] = [{} for _ in range(reduces)]
    mine = groups_of(start, digits, task.spec.maps)[task.spec.index]
    for group in mine:
        place = start + group * GROUP_DIGITS
        found[group * reduces // count][b"%012d" % place] = group_at(place - 1)
        task.progress.report("map", (group - mine.start) / len(mine))
    task.publish([[encode_counts(part)] for part in found], CountLines())


def _reduce(task: ReduceTask) -> None:
    end = task.params["start"] + task.params["digits"]
    write_lines(task, _lines(merged_counts(task), end))


def _lines(groups: Iterator[tuple[bytes, int]], end: int) -> Iterator[bytes]:
    for place, value in groups:
        yield b"%b\t%b" % (place, (b"%08x" % value)[: end - int(place)])


def check_bbp(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Check order and digits, by Chudnovsky's series. Returns an error or None.

    Beyond number `DIGITS_CHECKED`, only the order and the number of digits are checked.
    """
    start, count = ran.params["start"], ran.params["digits"]
    found, place = [], start
    for number, pieces in enumerate(parts):
        for line in lines_of(pieces):
            at, _, digits = line.partition(b"\t")
            if int(at) != place:
                return f"part {number}: {shown(line)}, expected digit {place}"
            found.append(digits)
            place += len(digits)
    digits = b"".join(found)
    if len(digits) != count:
        return f"{len(digits)} digits, expected {count}"
    end = start + count - 1
    if end > DIGITS_CHECKED:
        return None
    wanted = (b"%x" % (pi_fraction(end)[0])).zfill(end)[start - 1 :]
    if digits != wanted:
        wrong = next(at for at in range(count) if digits[at] != wanted[at])
        return f"digit {start + wrong} of pi is {chr(wanted[wrong])}, not {chr(digits[wrong])}"
    return None


def pi_fraction(digits: int) -> tuple[int, int]:
    """Return the first hexadecimal digits of pi behind the point as a number, and its bits."""
    bits = 4 * digits + 64

    def split(low: int, high: int) -> tuple[int, int, int]:
        if high - low == 1:
            p = (6 * low - 5) * (2 * low - 1) * (6 * low - 1)
            q = low**3 * 640320**3 // 24
            return p, q, p * (13591409 + 545140134 * low) * (-1) ** low
        middle = (low + high) // 2
        p1, q1, t1 = split(low, middle)
        p2, q2, t2 = split(middle, high)
        return p1 * p2, q1 * q2, t1 * q2 + p1 * t2

    _, q, t = split(1, bits // 47 + 2)  # Each term of the series gives 47 bits.
    pi = q * 426880 * math.isqrt(10005 << 2 * bits) // (13591409 * q + t)
    return (pi - (3 << bits)) >> 64, 4 * digits


APP = App(
    name="bbp",
    paper="liu2015",
    summary="computes hexadecimal digits of pi after the point; output lines place<TAB>digits, in order over all parts",
    input="none",
    reduces="needed",
    run_map=_map,
    run_reduce=_reduce,
    parameters=(
        Parameter(
            "start",
            1,
            "",
            "position of the first digit to compute, counted after the point",
            least=1,
            most=START_MAX // 2,
        ),
        Parameter(
            "digits",
            10_000,
            "digits",
            "number of digits to compute, divided among the maps",
            least=1,
            most=START_MAX // 2,
        ),
    ),
    default_maps=10,
    check=check_bbp,
    work=Work("digits", shared=True),
    costs=AppCosts(
        map_start_s=0,
        map_cpu_s=0.0003796,
        map_sort_s=0,
        map_output=Law(165.3, 0.5636),
        map_records=0,
        reduce_start_s=0.001854,
        reduce_sort_s=8.986e-08,
        reduce_cpu_s=7.151e-09,
        output=Law(152.6, 0.5639),
        note="its own map and reduce code on 10,000 digits, 10 maps, 1 reduce (later digits cost more);"
        " the fastest of 3 on a 2-core VM",
    ),
)
