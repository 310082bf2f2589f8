"""PySpark's side of `datapath.py`: wordcount or sort with RDDs on `local-cluster[2,1,1024]`.

    python tests/harness/spark_job.py wordcount|sort INPUT OUTPUT_FOLDER

The script prints the seconds of the action alone. The output has the format of schedbed's, with one file for
each partition.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from operator import add
from pathlib import Path
from typing import Any

MASTER = "local-cluster[2,1,1024]"
RECORD_BYTES, KEY_BYTES = 100, 10
PARTS = 2


def words(lines: Any) -> Any:
    """Return an RDD of output lines, each a word and its count."""
    counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add, PARTS)
    return counts.map(lambda pair: f"{pair[0]}\t{pair[1]}\n".encode())


def ordered(records: Any) -> Any:
    """Return an RDD of the records, sorted by key."""
    pairs = records.map(lambda record: (bytes(record[:KEY_BYTES]), record))
    return pairs.sortByKey(numPartitions=PARTS).values()


def run(context: Any, app: str, source: str, out: Path) -> float:
    """Run `app` on the file `source` and write its parts.

    Return the seconds from the first call to the last part.
    """

    def save(number: int, rows: Iterable[bytes]) -> Iterator[int]:
        with (out / f"part-{number:05}").open("wb") as file:
            file.writelines(rows)
        yield number

    began_s = time.monotonic()
    if app == "wordcount":
        rows = words(context.textFile(f"file://{source}"))
    else:
        rows = ordered(context.binaryRecords(f"file://{source}", RECORD_BYTES))
    rows.mapPartitionsWithIndex(save).count()
    return time.monotonic() - began_s


def main() -> None:
    """Run the job that the command line names, and print its seconds."""
    app, source, out = sys.argv[1], str(Path(sys.argv[2]).resolve()), Path(sys.argv[3]).resolve()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.ERROR)
    import pyspark  # pyright: ignore[reportMissingImports]

    settings = pyspark.SparkConf().setMaster(MASTER).setAppName(app)
    settings.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    context = pyspark.SparkContext(conf=settings)
    context.setLogLevel("ERROR")
    out.mkdir(parents=True)
    took_s = run(context, app, source, out)
    context.stop()
    print(f"action_s={took_s:.3f}", flush=True)


if __name__ == "__main__":
    main()
