"""Jobs whose mapper and reducer are commands, as in Hadoop Streaming: any programs that read lines and
write lines `key<TAB>value`.
"""

from __future__ import annotations

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.own.own_app import OWN_PARAMETERS
from schedbed.tasks.own.stages import run_map, run_reduce

APP = App(
    name="streaming",
    summary="runs commands on lines: mapper, combiner and reducer; the reducer sees lines sorted by key",
    input="text",
    reduces="any",
    run_map=run_map,
    run_reduce=run_reduce,
    parameters=(
        Parameter("mapper", "", "command", "gets the lines of the split", required=True),
        Parameter("combiner", "", "command", "gets a map's sorted lines before the shuffle; none without"),
        Parameter(
            "reducer", "", "command", "gets the sorted lines of its keys; without, maps write the output"
        ),
        *OWN_PARAMETERS,
    ),
)
