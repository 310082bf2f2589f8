"""Generation of sort's input as in Hadoop's teragen: maps only, with consecutive record numbers."""

from __future__ import annotations

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law, Work
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran, records_of, shown
from schedbed.tasks.chance import chance
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.readers import RECORD_BYTES
from schedbed.tasks.workloads.input_data import records


def _map(task: MapTask) -> None:
    count, index = task.params["bytes"] // RECORD_BYTES, task.spec.index
    seed = chance(task.spec.seed, "teragen", index).getrandbits(63)
    output, done = task.create(), 0
    for piece in records(count, count * index, seed):
        output.write(piece)
        done += len(piece) // RECORD_BYTES
        task.node.meter.add("records_out", len(piece) // RECORD_BYTES)
        task.progress.report("map", done / count)
    output.close()


def check_teragen(ran: Ran, data: Pieces, parts: Parts) -> str | None:
    """Check that all records are there in order, in teragen's format. Returns an error or None."""
    number = 0
    for part, pieces in enumerate(parts):
        for record in records_of(pieces):
            fixed = record[10:12] + record[44:48] + record[96:]
            if int(record[12:44], 16) != number or fixed != bytes.fromhex("0011 8899aabb ccddeeff"):
                return f"part {part}: record {number} is {shown(record)}"
            number += 1
    wanted = ran.maps * (ran.params["bytes"] // 100)
    return None if number == wanted else f"{number} records, expected {wanted}"


APP = App(
    name="teragen",
    paper="liu2015",
    summary="writes 100-byte records with random keys, numbered over all maps; one file per map",
    input="none",
    reduces="never",
    run_map=_map,
    parameters=(
        Parameter(
            "bytes",
            64 * 2**20,
            "bytes",
            "amount of data that each map writes, in whole records of 100 bytes",
            scaled=True,
        ),
    ),
    default_maps=4,
    check=check_teragen,
    work=Work("bytes"),
    costs=AppCosts(
        map_start_s=0.0007295,
        map_cpu_s=2.053e-09,
        map_sort_s=0.0,
        map_output=Law(1.0, 1.0),
        map_records=0.0,
        reduce_start_s=0.0,
        reduce_sort_s=0.0,
        reduce_cpu_s=0.0,
        output=Law(1.0, 1.0),
        note="its own map and reduce code on 8 MiB a map; the fastest of 3 on a 2-core VM",
    ),
)
