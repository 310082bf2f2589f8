"""Selection of a small share of records, as in Gridmix's scan of web data (Select in polo2011).

Maps keep 0.2%, reduces 5% of these, by default. Unlike Gridmix, which keeps every n-th record, a hash of the
key decides, so that splits do not matter.
"""

from __future__ import annotations

import zlib

import numpy as np

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, records_of, shown
from schedbed.tasks.apps.sort import GROW_BYTES, RecordSorter
from schedbed.tasks.blockfile import Buffer
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.readers import RECORD_BYTES
from schedbed.tasks.reducer import ReduceTask
from schedbed.tasks.spill_formats import KEY_BYTES, PREFIX_BYTES, Rows, SortedRecords

HASH_BITS = 53
FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # Odd numbers that spread a key over 64 bits.
MASK = (1 << 64) - 1


class Selector(RecordSorter):
    """A map's collector (the store of its output) that keeps and sorts the records with a key hash below
    `limit`.
    """

    def __init__(self, boundaries: list[bytes], limit: int) -> None:
        super().__init__(boundaries, GROW_BYTES)
        self._limit = limit

    def feed(self, chunk: bytes) -> None:
        """Add a chunk's selected records."""
        super().feed(kept(chunk, self._limit))


def kept(chunk: Buffer, limit: int) -> bytes:
    """Return the records whose key's hash is below `limit`."""
    rows = np.frombuffer(chunk, dtype=np.uint8).reshape(-1, RECORD_BYTES)
    return rows[hashes(rows) < limit].tobytes()


def hashes(rows: Rows) -> np.ndarray:
    """Return a hash of each key, from 0 to 2^53 - 1, from its first 8 and last 2 bytes."""
    prefix = np.ascontiguousarray(rows[:, :PREFIX_BYTES]).view(">u8").ravel().astype(np.uint64)
    rest = np.ascontiguousarray(rows[:, PREFIX_BYTES:KEY_BYTES]).view(">u2").ravel().astype(np.uint64)
    first, second = (np.uint64(factor) for factor in FACTORS)
    mixed = (prefix + rest * second) * first  # Modulo 2^64.
    return ((mixed ^ (mixed >> np.uint64(32))) * second) >> np.uint64(64 - HASH_BITS)


def limit_of(share: float) -> int:
    """Return the hash limit that selects the given share of all keys. Raises BadInput unless `share` is from 0 to 1."""
    if not 0 <= share <= 1:
        raise BadInput(f"select keeps {share:g} of the records, expected a share from 0 to 1")
    return int(share * 2**HASH_BITS)


def _map(task: MapTask) -> None:
    reduces = task.spec.reduces
    keys = (part * 256**KEY_BYTES // reduces for part in range(1, reduces))
    boundaries = [key.to_bytes(KEY_BYTES, "big") for key in keys]
    task.collect("records", Selector(boundaries, limit_of(task.params["keep_map"])), SortedRecords())


def _reduce(task: ReduceTask) -> None:
    limit = limit_of(task.params["keep_map"] * limit_share(task.params["keep_reduce"]))
    output = task.create()
    for piece in task.merged(SortedRecords()):
        data = kept(piece, limit)
        output.write(data)
        task.node.meter.add("records_out", len(data) // RECORD_BYTES)
    output.close()


def limit_share(share: float) -> float:
    """Return `share`. Raises BadInput unless it is from 0 to 1."""
    limit_of(share)
    return share


def check_select(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Check that the parts are sorted and have what both selections keep. Returns an error or None."""
    limit = int(ran.params["keep_map"] * ran.params["keep_reduce"] * 2**53)
    balance = [0, 0]
    for record in records_of(data):
        if key_hash(record[:10]) < limit:
            balance[0] += 1
            balance[1] += zlib.crc32(record)
    expected = balance[0]
    last = b""
    for number, pieces in enumerate(parts):
        for record in records_of(pieces):
            if record < last:
                return f"part {number}: {shown(record)} is smaller than the record before it"
            balance[0] -= 1
            balance[1] -= zlib.crc32(record)
            last = record
    if any(balance):
        return f"{expected - balance[0]} records in the output, {expected} are selected, or they are others"
    return None


def key_hash(key: bytes) -> int:
    """Return the hash of `hashes` for one key, without numpy, so that a check can find errors in it."""
    first, second = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
    mixed = (int.from_bytes(key[:8], "big") + int.from_bytes(key[8:], "big") * second) * first & MASK
    return ((mixed ^ (mixed >> 32)) * second & MASK) >> 11


APP = App(
    name="select",
    paper="polo2011",
    summary="selects a share of the records by a hash of their key, in maps and again in reduces; "
    "each output part is sorted and covers an equal range of keys",
    input="records",
    reduces="needed",
    run_map=_map,
    run_reduce=_reduce,
    parameters=(
        Parameter(
            "keep_map", 0.002, "", "share of the input's records that maps keep: 0.002 is 0.2%", most=1
        ),
        Parameter(
            "keep_reduce",
            0.05,
            "",
            "share of the records kept by maps that reduces also keep: 0.05 is 5%",
            most=1,
        ),
    ),
    check=check_select,
    costs=AppCosts(
        map_start_s=0.0006348,
        map_cpu_s=3.875e-10,
        map_sort_s=1.007e-07,
        map_output=Law(0.003151, 0.9766),
        map_records=0.01,
        reduce_start_s=0.0008127,
        reduce_sort_s=1.827e-07,
        reduce_cpu_s=2.164e-08,
        output=Law(0.0001, 1.0),
        note="its own map and reduce code on 8 MiB of generated records, 2 reduces; output as its parameters say;"
        " the fastest of 3 on a 2-core VM",
    ),
)
