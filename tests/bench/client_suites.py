"""Run WebHDFS's clients against a cluster of `schedbed up`: their own test suites, and typical uses.

    python -m tests.bench.client_suites --hdfs CHECKOUT --fsspec CHECKOUT --python PYTHON
        [--promtool PROMTOOL] [--save docs/results/clients.json]

The CHECKOUTs are those of github.com/mtth/hdfs and github.com/fsspec/filesystem_spec, as the packages do not
contain their tests. PYTHON is the interpreter of an environment made with

    pip install hdfs[avro,dataframe] fsspec requests pandas polars pyarrow pyspark pytest

and has Java 17 for PySpark; promtool comes with Prometheus. The command takes about four minutes. It exits
with 1 if something fails that `client_table.NAMED` does not explain. `python -m tests.bench.pages` renders
docs/clients.md from the saved file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from schedbed import connect
from tests.bench.client_checks import CHECKS
from tests.bench.client_table import ClientFile, ClientResult, table
from tests.bench.figures import host_line, today

BENCH = Path(__file__).parent
PORT = 50070
"""The port that fsspec's tests ask, whatever they are told."""
ADDRESS = f"127.0.0.1:{PORT}"
FSSPEC_TESTS = "fsspec/implementations/tests/test_webhdfs.py"


@contextmanager
def cluster(place: Path) -> Iterator[Path]:
    """Start a cluster and run a wordcount on it.

    Yield the folder of its results, which holds the WebHDFS token.
    """
    os.environ["XDG_RUNTIME_DIR"] = str(place)
    up = [
        sys.executable,
        "-m",
        "schedbed",
        "up",
        "quickstart",
        "--name",
        "clients",
        "--out",
        str(place / "out"),
    ]
    subprocess.run([*up, "--webhdfs", str(PORT), "--metrics", "0"], check=True)
    try:
        job = connect().submit(
            {"app": "wordcount", "input": {"generate": "text", "size": "64MiB"}, "reduces": 2}
        )
        if job.wait() != "succeeded":
            raise RuntimeError(f"{job.job} ended as {job.status()['state']}")
        yield place / "out"
    finally:
        connect().down()


def suite(
    python: str, folder: Path, tests: str, environment: Mapping[str, str], *options: str
) -> tuple[int, list[str], list[str]]:
    """Run tests with pytest.

    Return how many passed, the names of those that failed, and the names of those skipped. `folder` is the
    working folder, and `tests` a path below it.
    """
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "junit.xml"
        (Path(name) / "pytest.ini").write_text("[pytest]\n")
        call = [python, "-m", "pytest", "-q", "-c", f"{name}/pytest.ini", f"--rootdir={folder}"]
        call += ["-p", "no:cacheprovider", f"--junitxml={report}", *options, str(folder / tests)]
        environment = {**os.environ, "TMPDIR": name, **environment}  # clients leave logs there
        subprocess.run(call, cwd=folder, env=environment, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    outcome: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in cases:
        kinds = {child.tag for child in case}
        kind = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        where = case.get("classname", "").split(".")
        first = next((at for at, part in enumerate(where) if part.startswith("test_")), 0)
        outcome[kind].append(".".join([*where[first:], case.get("name", "")]))
    return len(outcome["passed"]), outcome["failed"], outcome["skipped"]


def hdfs_suite(python: str, checkout: Path, token: str) -> ClientResult:
    """Run the unchanged tests of the package `hdfs` against the cluster, through a configuration file of that
    package.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
        config.write(f"[lab.alias]\nclient = TokenClient\nurl = http://{ADDRESS}\ntoken = {token}\n")
        config.flush()
        environment = {"HDFSCLI_CONFIG": config.name, "HDFSCLI_TEST_ALIAS": "lab", "PYTHONPATH": ""}
        passed, failed, skipped = suite(python, checkout, "test", environment)
    client = f"hdfs {installed(python, 'hdfs')}"
    return ClientResult(
        client=client, how="all of its own tests", passed=passed, failed=failed, skipped=skipped
    )


def fsspec_suite(python: str, checkout: Path, token: str) -> ClientResult:
    """Run the unchanged WebHDFS tests of fsspec against the cluster.

    A plugin adds the token to each request. The program `htcluster`, with which the tests would start a
    cluster, is replaced by an empty script.
    """
    with tempfile.TemporaryDirectory() as name:
        stub = Path(name) / "htcluster"
        stub.write_text("#!/bin/sh\n")
        stub.chmod(0o755)
        path = os.pathsep.join([name, os.environ["PATH"]])
        environment = {"PATH": path, "PYTHONPATH": str(BENCH), "SCHEDBED_WEBHDFS_TOKEN": token}
        passed, failed, skipped = suite(python, checkout, FSSPEC_TESTS, environment, "-p", "shown_token")
    client = f"fsspec {installed(python, 'fsspec')}"
    how = "all of its own tests of WebHDFS"
    return ClientResult(client=client, how=how, passed=passed, failed=failed, skipped=skipped)


def installed(python: str, package: str) -> str:
    """Return the version of `package` in the environment of the interpreter `python`."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def check(python: str, name: str, folder: Path) -> ClientResult:
    """Run the check `name` of `client_checks.py` with the interpreter `python`. Return its result."""
    call = [python, str(BENCH / "client_checks.py"), name, ADDRESS, str(folder)]
    ran = subprocess.run(
        call, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}, check=False
    )
    if ran.returncode:
        print(ran.stderr, file=sys.stderr)
        lines = ran.stderr.strip().splitlines()
        return ClientResult(
            client=name, how="", trouble=lines[-1] if lines else f"exit code {ran.returncode}"
        )
    told = json.loads(ran.stdout.splitlines()[-1])
    return ClientResult(client=f"{name} ({told['versions']})", how=told["did"])


def promtool(program: str) -> ClientResult:
    """Check the metrics that the cluster serves with `promtool check metrics`."""
    where = connect().record.doors["metrics"]
    url, bearer = where.split(", ")[0], Path(where.rpartition(" ")[2]).read_text()
    with urlopen(Request(url, headers={"Authorization": f"Bearer {bearer}"}), timeout=60) as answer:
        text = answer.read()
    about = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = (about.stdout or about.stderr).split("version ")[1].split()[0]
    ran = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, check=False)
    said = (ran.stdout + ran.stderr).decode().strip()
    how = f"`promtool check metrics` on {len(text.splitlines())} lines of `/metrics`"
    return ClientResult(
        client=f"Prometheus {version}", how=how, trouble=said if said or ran.returncode else ""
    )


def main() -> int:
    """Run the suites and checks that the options ask for, and print the table.

    Return 1 if a failure is unexplained.
    """
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--hdfs", type=Path, help="checkout of mtth/hdfs")
    options.add_argument("--fsspec", type=Path, help="checkout of fsspec/filesystem_spec")
    options.add_argument("--python", default=sys.executable, help="Python with the clients")
    options.add_argument("--promtool", help="path of promtool")
    options.add_argument("--save", type=Path, help="file for the results")
    asked = options.parse_args()
    results: list[ClientResult] = []
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as out:
        token = (out / "webhdfs-token").read_text()
        results += [hdfs_suite(asked.python, asked.hdfs.resolve(), token)] if asked.hdfs else []
        results += [fsspec_suite(asked.python, asked.fsspec.resolve(), token)] if asked.fsspec else []
        results += [check(asked.python, each, out) for each in CHECKS]
        results += [promtool(asked.promtool)] if asked.promtool else []
    given = [f"--{each} {each.upper()}" for each in ("hdfs", "fsspec", "python", "promtool")]
    kept = ClientFile(
        date=today(),
        host=host_line(),
        command=" ".join(["python -m tests.bench.client_suites", *given]),
        clients=results,
    )
    if asked.save:
        kept.save(asked.save)
    print(table(kept))
    return int(any(each.unexplained for each in results))


if __name__ == "__main__":
    sys.exit(main())
