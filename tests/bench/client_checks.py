"""Use WebHDFS from other programs, as their documentation says: `client_suites.py` runs one check at a time.

    python tests/bench/client_checks.py NAME HOST:PORT FOLDER

FOLDER holds `webhdfs-token` and `webhdfs-credentials` of a cluster on which a wordcount has run. The Python
that runs this needs the programs, but not schedbed. The script prints JSON with the versions and what was
done. An exception means failure.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from operator import add
from pathlib import Path
from typing import Any

ROWS = 200_000
WORDS = 500_000
ROOT_FOLDER = "/clients"


class Where:
    """The address of a WebHDFS server and its token, in the forms that the programs expect."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.token = (folder / "webhdfs-token").read_text()
        self.credentials = folder / "webhdfs-credentials"

    def url(self, path: str) -> str:
        """Return the `webhdfs://` URL of a path, as Hadoop's clients use it."""
        return f"webhdfs://{self.address}{path}"

    def open(self, path: str, mode: str) -> Any:
        """Open a file of the server with fsspec."""
        import fsspec  # pyright: ignore[reportMissingImports]

        return fsspec.open(self.url(path), mode, token=self.token)


def _columns() -> dict[str, list[Any]]:
    return {"number": list(range(ROWS)), "text": [f"x{number % 97}" for number in range(ROWS)]}


def pandas_parquet(where: Where) -> str:
    """Write and read a Parquet file by URL with pandas. Return what was done."""
    import pandas as pd

    frame = pd.DataFrame(_columns())
    url, options = where.url(f"{ROOT_FOLDER}/pandas.parquet"), {"token": where.token}
    frame.to_parquet(url, storage_options=options, engine="pyarrow")
    read = pd.read_parquet(url, storage_options=options, engine="pyarrow")
    pd.testing.assert_frame_equal(frame, read)
    part = pd.read_parquet(url, storage_options=options, engine="pyarrow", columns=["text"])
    assert list(part.columns) == ["text"]
    return f"wrote and read {ROWS:,} rows of Parquet, whole and one column"


def polars_parquet(where: Where) -> str:
    """Write and read Parquet in files that fsspec opened, with Polars."""
    import polars as pl  # pyright: ignore[reportMissingImports]

    frame = pl.DataFrame(_columns())
    path = f"{ROOT_FOLDER}/polars.parquet"
    with where.open(path, "wb") as file:
        frame.write_parquet(file)
    with where.open(path, "rb") as file:
        assert pl.read_parquet(file).equals(frame)
    with where.open(path, "rb") as file:
        assert pl.scan_parquet(file).filter(pl.col("text") == "x5").collect().height == ROWS // 97 + 1
    return f"wrote and read {ROWS:,} rows of Parquet, whole and filtered"


def pyspark_words(where: Where) -> str:
    """Count the words of a file with PySpark, then save and read the counts and a table."""
    toss = random.Random(1)
    words = [f"word{int(toss.expovariate(0.02))}" for _ in range(WORDS)]
    with where.open(f"{ROOT_FOLDER}/words.txt", "wb") as file:
        file.write("".join(word + toss.choice(" \n") for word in words).encode())
    os.environ["HADOOP_TOKEN_FILE_LOCATION"] = str(where.credentials)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    context = session.sparkContext
    context.setLogLevel("ERROR")
    lines = context.textFile(where.url(f"{ROOT_FOLDER}/words.txt"))
    counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add)
    assert dict(counts.collect()) == Counter(words)
    counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(where.url(f"{ROOT_FOLDER}/counts"))
    saved = (line.split("\t") for line in context.textFile(where.url(f"{ROOT_FOLDER}/counts/*")).collect())
    assert {word: int(count) for word, count in saved} == Counter(words)
    session.range(ROWS).write.parquet(where.url(f"{ROOT_FOLDER}/spark.parquet"))
    assert session.read.parquet(where.url(f"{ROOT_FOLDER}/spark.parquet")).count() == ROWS
    job = {}
    for line in context.textFile(where.url("/out/job_0001/part-*")).collect():
        word, count = line.split("\t")
        job[word] = int(count)
    assert len(job) > 100 and all(job.values())
    session.stop()
    return (
        f"counted {WORDS:,} words right, saved and read them, wrote and read {ROWS:,} rows of Parquet, and "
        f"read the output of a wordcount job ({len(job):,} words)"
    )


def hdfscli_command(where: Where) -> str:
    """Upload a folder with the command `hdfscli`, and download it again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "hdfscli.cfg"
        alias = f"client = TokenClient\nurl = http://{where.address}\ntoken = {where.token}\nroot = {ROOT_FOLDER}\n"
        config.write_text(f"[global]\ndefault.alias = lab\n[lab.alias]\n{alias}")
        (folder / "up" / "deep").mkdir(parents=True)
        (folder / "up" / "a.txt").write_bytes(b"a" * 100_000)
        (folder / "up" / "deep" / "b.txt").write_bytes(b"b")
        command = [sys.executable, "-m", "hdfs"]
        environment = {**os.environ, "HDFSCLI_CONFIG": str(config), "TMPDIR": name}  # of its log
        for words in (
            ["upload", "-s", str(folder / "up"), "up"],
            ["download", "-s", "up", str(folder / "down")],
        ):
            subprocess.run([*command, *words], env=environment, check=True, cwd=folder)
        for part in ("a.txt", "deep/b.txt"):
            assert (folder / "down" / part).read_bytes() == (folder / "up" / part).read_bytes()
    return "uploaded a folder and downloaded it again"


CHECKS: dict[str, tuple[tuple[str, ...], Callable[[Where], str]]] = {
    "pandas": (("pandas", "fsspec", "pyarrow"), pandas_parquet),
    "Polars": (("polars", "fsspec"), polars_parquet),
    "PySpark": (("pyspark",), pyspark_words),
    "hdfscli": (("hdfs",), hdfscli_command),
}


def main() -> None:
    """Run the check that the command line names."""
    packages, check = CHECKS[sys.argv[1]]
    versions = " ".join(f"{package} {version(package)}" for package in packages)
    print(json.dumps({"versions": versions, "did": check(Where(sys.argv[2], Path(sys.argv[3])))}))


if __name__ == "__main__":
    main()
