"""Whether digits of pi, generated records and selected records are right, worked out in another way."""

from __future__ import annotations

import math
import zlib

from schedbed.tasks.checks.part_files import Parts, Pieces, Ran, lines, records, shown

DIGITS_CHECKED = 500_000  # of pi: further out, only the number of digits is looked at
MASK = (1 << 64) - 1


def check_bbp(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """The digits are those of Chudnovsky's series, a group a line, in order."""
    start, count = ran.params["start"], ran.params["digits"]
    found, place = [], start
    for number, pieces in enumerate(parts):
        for line in lines(pieces):
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
    """The first so many hexadecimal digits of pi after the point as one number, and how many bits it has."""
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

    _, q, t = split(1, bits // 47 + 2)  # a term gives 47 bits
    pi = q * 426880 * math.isqrt(10005 << 2 * bits) // (13591409 * q + t)
    return (pi - (3 << bits)) >> 64, 4 * digits


def check_teragen(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """All records are there, numbered in order, with teragen's fixed bytes in their places."""
    number = 0
    for part, pieces in enumerate(parts):
        for record in records(pieces):
            fixed = record[10:12] + record[44:48] + record[96:]
            if int(record[12:44], 16) != number or fixed != bytes.fromhex("0011 8899aabb ccddeeff"):
                return f"part {part}: record {number} is {shown(record)}"
            number += 1
    wanted = ran.maps * (ran.params["bytes"] // 100)
    return None if number == wanted else f"{number} records, expected {wanted}"


def check_select(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """The parts are sorted and hold exactly the records that both shares select."""
    limit = int(ran.params["keep_map"] * ran.params["keep_reduce"] * 2**53)
    balance = [0, 0]
    for record in records(data):
        if key_hash(record[:10]) < limit:
            balance[0] += 1
            balance[1] += zlib.crc32(record)
    expected = balance[0]
    last = b""
    for number, pieces in enumerate(parts):
        for record in records(pieces):
            if record < last:
                return f"part {number}: {shown(record)} is smaller than the record before it"
            balance[0] -= 1
            balance[1] -= zlib.crc32(record)
            last = record
    if any(balance):
        return f"{expected - balance[0]} records in the output, {expected} are selected, or they are others"
    return None


def key_hash(key: bytes) -> int:
    """The number of 0 to 2^53 - 1 that decides about a record."""
    first, second = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
    mixed = (int.from_bytes(key[:8], "big") + int.from_bytes(key[8:], "big") * second) * first & MASK
    return ((mixed ^ (mixed >> 32)) * second & MASK) >> 11
