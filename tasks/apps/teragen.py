"""Writes the records that sort reads, as Hadoop's teragen does: map-only, numbered on from map to map."""

from __future__ import annotations

from schedbed.tasks.apps.app import App, Parameter
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


APP = App(
    name="teragen",
    paper="liu2015",
    summary="writes 100-byte records with random keys, numbered over all maps; a file a map",
    input="none",
    reduces="never",
    run_map=_map,
    parameters=(Parameter("bytes", 64 * 2**20, "bytes", "how much each map writes, in whole records"),),
    default_maps=4,
)
