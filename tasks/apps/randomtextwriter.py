"""Writes random text from its maps, as Hadoop's randomtextwriter does."""

from __future__ import annotations

from schedbed.tasks.apps.app import App, Parameter
from schedbed.tasks.chance import chance
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.workloads.input_data import generate


def _map(task: MapTask) -> None:
    wanted = task.params["bytes"]
    seed = chance(task.spec.seed, "randomtextwriter", task.spec.index).getrandbits(63)
    output = task.create()
    done = 0
    for piece in generate("text", wanted, seed):
        output.write(piece)
        done += len(piece)
        task.node.meter.add("records_out", piece.count(b"\n"))
        task.progress.report("map", done / wanted)
    output.close()


APP = App(
    name="randomtextwriter",
    paper="lakshmi2019",
    summary="writes random lines of words that follow Zipf's law; a file a map",
    input="none",
    reduces="never",
    run_map=_map,
    parameters=(Parameter("bytes", 64 * 2**20, "bytes", "how much each map writes"),),
    default_maps=4,
)
