"""A user's class in attempts: its semantics, and the file and line reported for each kind of failure."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from schedbed.tasks.attempt import run_on
from schedbed.tasks.node_client.node import MapOutputAt
from schedbed.tasks.specs import TaskKind
from tests.harness.memory_node import a_spec, report_of
from tests.harness.own_apps import OwnJob

LENGTHS = """
    from sizes import size_of

    class App:
        def __init__(self, least=1):
            self.least = least

        def map(self, line):
            for word in line.split():
                if size_of(word) >= self.least:
                    yield str(size_of(word)), 1

        def combine(self, key, values):
            yield key, sum(values)

        def reduce(self, key, values):
            yield key, sum(values)
    """
TEXT = b"".join(b"the cat saw %d cats and the d\xc3\xb6g\n" % (n % 37) for n in range(3000))


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "sizes.py").write_text("def size_of(word):\n    return len(word)\n")
    return tmp_path


def test_a_class_counts_with_a_helper_beside_it_and_a_parameter(beside: Path) -> None:
    parts = OwnJob(beside, TEXT, LENGTHS, least=2).run(reduces=2, cuts=(10_001,))
    found = dict(line.split(b"\t") for part in parts for line in part.splitlines())
    wanted = Counter(len(word) for word in TEXT.decode().split() if len(word) >= 2)
    assert {int(key): int(value) for key, value in found.items()} == wanted


def test_values_of_any_form_travel_and_come_out_as_text_or_json(tmp_path: Path) -> None:
    code = """
        class App:
            def map(self, line):
                key, _, rest = line.partition(" ")
                yield key, [rest, len(rest), None, 1.5, {"a\\tb": rest == ""}]
                yield key, "text\\twith\\nbreaks"

            def reduce(self, key, values):
                values = list(values)
                yield key, len(values)
                yield key, sorted(values, key=str)[0]
                yield key, "plain " + [v for v in values if isinstance(v, str)][0].split()[0]
                yield key + "!", None

            def partition(self, key, reduces):
                return reduces - 1
        """
    parts = OwnJob(tmp_path, b"k \xff\xfe\nl\n", code).run(reduces=2)
    assert parts[0] == b""
    assert parts[1].splitlines() == [
        b"k\t2",
        b'k\t["\xff\xfe",2,null,1.5,{"a\\tb":false}]',
        b"k\tplain text",
        b"k!",
        b"l\t2",
        b'l\t["",0,null,1.5,{"a\\tb":true}]',
        b"l\tplain text",
        b"l!",
    ]


def test_records_and_maps_without_input(tmp_path: Path) -> None:
    code = 'class App:\n    input = "records"\n    def map(self, record):\n        yield str(len(record)), None\n'
    job = OwnJob(tmp_path, bytes(300), code)
    job.cluster.job(job.app, (), 0, job.params, output="/out/r")
    assert job.cluster.files["/out/r"] == b"100\n" * 3
    code = 'class App:\n    input = "none"\n    def map(self, number):\n        return [("map", number)]\n'
    job = OwnJob(tmp_path, b"", code)
    job.cluster.job(job.app, (), 0, job.params, output="/out/n")
    assert job.cluster.files["/out/n"] == b"map\t0\n"


def test_what_a_class_prints_is_bounded_and_does_not_disturb(tmp_path: Path) -> None:
    code = 'class App:\n    def map(self, line):\n        print("x" * 100)\n        yield line, 1\n'
    job = OwnJob(tmp_path, b"a\n" * 5, code)
    job.cluster.job(job.app, (), 0, job.params, output="/out/0")
    assert job.cluster.files["/out/0"] == b"a\t1\n" * 5


MAP = "class App:\n    def map(self, line):\n        {}\n"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("yield line, 1 / 0", "app.py:3: ZeroDivisionError: division by zero"),
        ("yield line, helper(line)", "app.py:3: NameError: name 'helper' is not defined"),
        ("yield 5", "app.py:2: map gave 5, expected a pair (key, value)"),
        ("yield 5, 5", "app.py:2: map gave the key 5, expected a text, such as str(key)"),
        (r"yield 'a\tb', 1", r"app.py:2: map gave the key 'a\tb', expected no tab and no newline in it"),
        ("yield 'a', {1}", "app.py:2: map gave the value {1}: Object of type set is not JSON serializable"),
        ("return 7", "app.py:2: TypeError: 'int' object is not iterable"),
        ("raise SystemExit(3)", "app.py:3: map ended the process with exit(3)"),
        ("import no_such_module", "app.py:3: ModuleNotFoundError: No module named 'no_such_module'"),
        ("while True: pass", "app.py:3: map hangs: it did nothing for 400ms (task_timeout)"),
        ("__import__('time').sleep(60)", "app.py:3: map hangs: it did nothing for 400ms (task_timeout)"),
    ],
)
def test_a_map_that_fails_is_told_with_file_and_line(tmp_path: Path, body: str, reason: str) -> None:
    assert OwnJob(tmp_path, b"a\n", MAP.format(body), task_timeout=0.4).reason() == reason


def test_other_places_are_told_as_well(tmp_path: Path) -> None:
    made = "class App:\n    def __init__(self, n=0):\n        1 // n\n    def map(self, line): pass\n"
    assert OwnJob(tmp_path, b"a\n", made, n=0).reason().startswith("app.py:3: ZeroDivisionError")
    (tmp_path / "sizes.py").write_text("def size_of(word):\n    return word.nope\n")
    assert "sizes.py:2: AttributeError: " in OwnJob(tmp_path, TEXT, LENGTHS).reason()
    (tmp_path / "sizes.py").write_text("def size_of(word:\n")
    assert OwnJob(tmp_path, TEXT, LENGTHS).reason().startswith("sizes.py:1: SyntaxError: ")
    wrong = MAP.format("yield line, 1") + (
        "    def reduce(self, key, values): yield key, 1\n    def partition(self, key, reduces): return 9\n"
    )
    reason = OwnJob(tmp_path, b"a\n", wrong).reason(reduces=2)
    assert reason == "app.py:5: partition gave 9, expected a whole number from 0 to 1"


def test_an_error_of_what_feeds_the_class_is_not_its_fault(tmp_path: Path) -> None:
    code = MAP.format("yield line, 1") + "    def reduce(self, key, values): yield key, sum(values)\n"
    job = OwnJob(tmp_path, b"a\n", code)
    job.run()
    node = job.cluster.node()

    def fetch(output: MapOutputAt, partition: int) -> bytes:
        raise OSError("the network broke")

    node.fetch = fetch  # type: ignore[method-assign]
    spec = a_spec(TaskKind.REDUCE, app=job.app, params=job.params, output="/x")
    assert run_on(spec, node, job.root, 0.0, 1.0) == 1
    assert report_of(job.root, spec)["reason"] == "OSError: the network broke"


def test_an_endless_map_is_ended_by_its_output(tmp_path: Path) -> None:
    job = OwnJob(tmp_path, b"a\n", MAP.format("while True: yield 'k' * 50, 1"), output_limit=2**20)
    assert job.reason() == "the map wrote more than 1.0 MiB: output_limit in params allows more"
