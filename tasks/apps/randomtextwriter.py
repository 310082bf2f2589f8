"""Generation of random text by maps, as in Hadoop's randomtextwriter."""

from __future__ import annotations

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.appkit.cost_law import AppCosts, Law, Work
from schedbed.tasks.chance import chance
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.workloads.input_data import text


def _map(task: MapTask) -> None:
    wanted = task.params["bytes"]
    seed = chance(task.spec.seed, "randomtextwriter", task.spec.index).getrandbits(63)
    output = task.create()
    done = 0
    for piece in text(wanted, seed):
        output.write(piece)
        done += len(piece)
        task.node.meter.add("records_out", piece.count(b"\n"))
        task.progress.report("map", done / wanted)
    output.close()


APP = App(
    name="randomtextwriter",
    paper="lakshmi2019",
    summary="writes random lines of words that follow Zipf's law; one file per map",
    input="none",
    reduces="never",
    run_map=_map,
    parameters=(Parameter("bytes", 64 * 2**20, "bytes", "amount of data that each map writes", scaled=True),),
    default_maps=4,
    work=Work("bytes"),
    costs=AppCosts(
        map_start_s=0.09242,
        map_cpu_s=1.566e-08,
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
