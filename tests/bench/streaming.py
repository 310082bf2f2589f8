"""Measure what streaming costs: word count of 64 MiB by two commands, compared with a pipeline in a shell.

    python tests/bench/streaming.py [--repeats 3]

A ratio is the CPU seconds of all attempts in the attempts table, their commands included, divided by those of
`mapper | sort | reducer` in a shell. The pipeline's `sort` uses the C locale, which is the cheapest. Both
sides run the same `awk` programs on the same text. The live run has one node of one whole host core. The
testbed itself (Ray, agents) does not count.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schedbed import Result, run
from schedbed.tasks.appkit.app_catalogue import generate
from tests.bench.figures import Figure, parser, publish, say

SIZE_BYTES = 64 * 2**20
MAPPER = "awk '{ for (i = 1; i <= NF; i++) print $i \"\\t1\" }'"
REDUCER = (
    'awk -F \'\\t\' \'($1 "") != key { if (NR > 1) print key "\\t" n; key = $1 ""; n = 0 } '
    '{ n += $2 } END { if (NR) print key "\\t" n }\''
)


def streamed() -> Result:
    """Run the streaming job live with its outputs kept."""
    values = {
        "name": "streaming",
        "cluster": {
            "nodes": 1,
            "node": {"cores": 1, "core_speed": 1.0, "memory": "2GiB", "disk": "1GB/s", "map_slots": 1},
        },
        "blocks": {"size": "16MiB", "replication": 1},
        "workload": {
            "jobs": [
                {
                    "app": "streaming",
                    "mapper": MAPPER,
                    "reducer": REDUCER,
                    "reduces": 2,
                    "input": {"generate": "text", "size": SIZE_BYTES, "seed": 1},
                }
            ]
        },
    }
    return run(values, policies=["fifo"], keep_outputs=True)


def piped(folder: Path) -> float:
    """Run the shell pipeline on the file `text` in `folder`. Return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["sh", "-c", f"{MAPPER} < text | sort | {REDUCER} > counts"],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run the benchmark, print its figures, and save them if `--out` is given."""
    asked = parser(__doc__).parse_args()
    ours, theirs, ratios = [], [], []
    with tempfile.TemporaryDirectory(prefix="schedbed-bench-") as name:
        folder = Path(name)
        (folder / "text").write_bytes(b"".join(generate("text", SIZE_BYTES, 1)))
        for repeat in range(asked.repeats):
            theirs.append(piped(folder))
            result = streamed()
            ours.append(float(result.attempts["cpu_s"].sum()))
            ratios.append(ours[-1] / theirs[-1])
            parts = sorted(result.folder.glob("outputs/fifo/0/job_0001/part-*"))
            lines = sorted(line for part in parts for line in part.read_bytes().splitlines())
            if lines != (folder / "counts").read_bytes().splitlines():
                raise SystemExit("the counts are not those of the shell")
            say(
                f"{repeat + 1}: shell {theirs[-1]:.2f} CPU-s, streaming {ours[-1]:.2f} CPU-s, {ratios[-1]:.2f} x"
            )
    figures = [
        Figure(name="CPU-seconds, streaming / shell", values=ratios, unit="x", high=1.5),
        Figure(name="streaming, 4 maps and 2 reduces", values=ours, unit="CPU-s"),
        Figure(name="mapper | LC_ALL=C sort | reducer", values=theirs, unit="CPU-s"),
    ]
    publish("streaming", "Streaming: word count of 64 MiB of text by awk", figures, asked.out)


if __name__ == "__main__":
    main()
