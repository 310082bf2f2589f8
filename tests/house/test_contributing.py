"""CONTRIBUTING.md works: each of its examples is added to a copy of the tree as its checklist says, and runs
in the copy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.checklists import Checklist, apply, checklists, copy_product

# How many files of the product each addition may touch.
WANTED = {
    "A policy of your own": 0,
    "A policy": 1,
    "An order, a locality or an admission": 1,
    "An application": 1,
    "A trace format": 1,
    "A kind of machine": 2,
    "A kind of fault": 3,
    "A column of a table": 2,
}
SCENARIO = """
name: toys
seed: 3
cluster: {nodes: 3, node: {core_speed: 0.2, map_slots: 1, reduce_slots: 1}, heartbeat: 200ms}
blocks: {size: 64KiB, replication: 2}
workload:
  jobs:
    - {name: stairs, app: linelengths, input: {generate: stairs, size: 300KiB}, reduces: 2, priority: high}
    - {name: burn, app: synthetic, maps: 6, map: {cpu: 2s}, submit: 1s}
policies: [newest, "newest:jobs=2", "order=widest", "my_policy.py:Newest"]
faults:
  - {at: 2s, power_cycle: n2}
"""


pytestmark = pytest.mark.long  # copies of the tree, and a dozen commands on them


class Tree:
    """A copy of the product with all examples of CONTRIBUTING.md in it, and a working folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root / "tree", root / "work"
        self.work.mkdir()
        copy_product(self.root)
        for title in WANTED:
            checklist = checklists()[title]
            own = {name: text for name, text in checklist.new.items() if "/" not in name}
            apply(Checklist(new=own), self.work)
            inside = {name: text for name, text in checklist.new.items() if name not in own}
            apply(Checklist(new=inside, edits=checklist.edits), self.root)
        (self.work / "toys.yaml").write_text(SCENARIO)

    def python(self, *arguments: str, **variables: str) -> str:
        """Run Python on the copy. Return what it prints."""
        path = {"PYTHONPATH": str(self.root / "src"), "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.work,
            env={**os.environ, **path, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def schedbed(self, *arguments: str, **variables: str) -> str:
        """Run a command of the copy. Return what it prints."""
        return self.python("-m", "schedbed", *arguments, **variables)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    made = Tree(tmp_path_factory.mktemp("contributing"))
    where = made.python("-c", "import schedbed; print(schedbed.__file__)")
    assert where.startswith(str(made.root)), "the tests look at another tree"
    return made


@pytest.fixture(scope="module")
def run(tree: Tree) -> Path:
    """Simulate a scenario that uses all examples of CONTRIBUTING.md. Return the results folder."""
    tree.schedbed("run", "toys.yaml", "--machines", "sim", "--no-live", "--out", "out")
    return tree.work / "out"


@pytest.mark.parametrize("title", WANTED)
def test_an_addition_touches_no_more_files_than_wanted(title: str) -> None:
    assert len(checklists()[title].product_files) == WANTED[title]


def test_each_checklist_with_an_example_is_followed() -> None:
    """`WANTED` lists every checklist that has an example, since others would not be tested."""
    with_example = {title for title, found in checklists().items() if found.new or found.edits}
    assert with_example == set(WANTED)


def test_policies_and_axes_are_listed_and_simulated(tree: Tree, run: Path) -> None:
    listed = tree.schedbed("policies")
    assert "Newest job first. [none]" in listed and "that are looked at" in listed
    assert "order=widest" in listed
    summary = json.loads((run / "summary.json").read_text())
    assert list(summary["policies"]) == ["newest", "newest:jobs=2", "order=widest", "my_policy.py:Newest"]
    script = """
from schedbed.scheduler.history import read_table
found = read_table("out", "decisions")
print(sorted(set(found[found["answer"] == "launch"].groupby("policy")["reason"].first())))
states = read_table("out", "jobs")
print(len(states), set(states["state"]))
"""
    reasons, states = tree.python("-c", script).splitlines()
    assert "a task of the newest job" in reasons
    assert states == "8 {'succeeded'}"


def test_the_application_runs_and_its_check_finds_a_wrong_output(tree: Tree) -> None:
    assert "counts lines by their length" in tree.schedbed("apps", "linelengths")
    script = """
from pathlib import Path
from tests.harness.memory_node import FakeCluster
from schedbed.tasks.appkit.app_catalogue import APPS, check_output, generate
from schedbed.tasks.appkit.part_files import Ran
data = b"".join(generate("stairs", 50_000, 1))
parts = FakeCluster(Path("attempts"), data).job("linelengths", [10_000, 33_333], 2)
ran = Ran(APPS["linelengths"].params({}), 3)
print(check_output("linelengths", ran, [data], [[part] for part in parts]))
first, _, rest = parts[0].partition(b"\\n")
print(check_output("linelengths", ran, [data], [[rest], [parts[1]]]))
"""
    here = str(Path(__file__).parents[2])
    right, wrong = tree.python("-c", f"import sys; sys.path.append({here!r})\n{script}").splitlines()
    assert right == "None"
    assert "has nothing, expected" in wrong


def test_the_trace_is_described_and_run(tree: Tree) -> None:
    (tree.work / "some.txt").write_text("bursts\n0 3 20\n15 2 10\n")
    shown = tree.schedbed("trace", "describe", "some.txt")
    assert "format  bursts" in shown and "5 maps, 0 reduces" in shown
    assert "bursts" in tree.schedbed("trace", "describe", "--help")
    (tree.work / "traced.yaml").write_text(
        "workload: {trace: some.txt, format: bursts}\npolicies: [fifo]\ncluster: {nodes: 2}\n"
    )
    assert "fifo" in tree.schedbed("run", "traced.yaml", "--machines", "sim", "--no-live", "--out", "traced")


def test_the_kind_of_machine_is_a_choice_and_is_made(tree: Tree) -> None:
    assert "process|docker|logged|sim" in tree.schedbed("run", "--help")
    script = """
from pathlib import Path
from schedbed.cluster.machines.make import check_machines, machines_ready, make_machine
from schedbed.cluster.run_config import RunConfig
from schedbed.deploy.scenario.resolve import resolve
cluster = resolve("toys.yaml").cluster
config = RunConfig(run_id="r", policy="fifo", given="fifo", scale=1.0, seed=1, epoch_s=0.0, token="t",
                   work=Path("nodes"), cluster=cluster, machines="logged")
check_machines("logged")
with machines_ready("logged"):
    made = make_machine(config, cluster.nodes[0], 0.0)
print(type(made).__name__, made.node.node, made.is_alive())
"""
    assert tree.python("-c", script).split() == ["LoggedMachine", "n1", "False"]


def test_the_fault_is_injected(tree: Tree, run: Path) -> None:
    script = """
from schedbed.scheduler.history import read_table
found = read_table("out", "faults")
print(set(zip(found["kind"], found["target"])), len(found))
"""
    assert tree.python("-c", script).strip() == "{('power_cycle', 'n2')} 4"
    assert "power_cycle" in tree.schedbed("fault", "--list")


@pytest.mark.parametrize("compiled", [False, True])
def test_the_column_is_in_the_table_whichever_loop_simulates(tree: Tree, compiled: bool) -> None:
    """Both loops write the example's column.

    The compiled loop runs as plain Python, as compiling would take too long.
    """
    (tree.work / "column.yaml").write_text(
        "policies: [fifo]\ncluster: {nodes: 3}\nsimulate: {contention: false}\nworkload:\n  jobs:\n"
        "    - {name: a, app: synthetic, maps: 9, map: {cpu: 20s}, priority: high}\n"
        "    - {name: b, app: synthetic, maps: 9, map: {cpu: 20s}, priority: low}\n"
    )
    script = f"""
import schedbed
from schedbed.scheduler.simulate.compiled.ahead import compile_ahead
from schedbed.scheduler.simulate.compiled import run_compiled
compile_ahead.COMPILED_TASKS = 1 if {compiled} else 1000
used, run = [], run_compiled.run
run_compiled.run = lambda *given: used.append(run(*given)) or used[-1]
found = schedbed.run("column.yaml", machines="sim", out="column{compiled}").jobs
print(used, list(found.columns)[-2:], list(found["priority"]))
"""
    told = tree.python("-c", script, NUMBA_DISABLE_JIT="1").splitlines()[-1]
    refused = (
        [None] if compiled else []
    )  # the compiled loop was asked, and said nothing against this scenario
    assert told == f"{refused} ['state', 'priority'] ['high', 'low']"
