"""Jobs whose mapper and reducer are commands, as in Hadoop Streaming: any programs that read lines and
write lines `key<TAB>value`.
"""

from __future__ import annotations

from schedbed.tasks.appkit.app import App, Parameter
from schedbed.tasks.own.own_app import OWN_PARAMETERS
from schedbed.tasks.own.stages import run_map, run_reduce

APP = App(
    name="streaming",
    summary="runs commands that read and write lines: mapper, combiner and reducer; the reducer "
    "reads lines sorted by key",
    input="text",
    reduces="any",
    run_map=run_map,
    run_reduce=run_reduce,
    parameters=(
        Parameter("mapper", "", "command", "command that reads the lines of a split", required=True),
        Parameter(
            "combiner",
            "",
            "command",
            "command that combines a map's sorted output lines before the shuffle; not used if empty",
        ),
        Parameter(
            "reducer",
            "",
            "command",
            "command that reads lines sorted by key; if empty, maps write the job's output",
        ),
        *OWN_PARAMETERS,
    ),
)
