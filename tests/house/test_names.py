"""Production code rarely chooses attributes by computed names: the calls of `getattr` are counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.structure import modules, name_of, tree_of

FIELD = "reads a field of a value whose name comes from a fixed list or from dataclasses.fields"
IMPORT = "takes an attribute of a module that was imported by name, as a plug-in"
HOOK = "asks a policy for a hook that policies may leave out"
DOOR = "builds a door's table from the names in the door's Protocol"

STREAM = "passes the members of a stream that it does not change on to the wrapped stream"

CHOSEN_BY_NAME: dict[str, tuple[int, str]] = {
    "cluster/agent/warm/zygote.py": (1, IMPORT),
    "cluster/blocks/served_namenode.py": (1, DOOR),
    "cluster/conditions.py": (1, FIELD),
    "cluster/masters.py": (1, DOOR),
    "deploy/display/plain_terminal.py": (1, STREAM),
    "deploy/papers/verma2011/job_phases.py": (3, FIELD),
    "deploy/results/runfile.py": (1, FIELD),
    "deploy/scenario/cluster.py": (1, FIELD),
    "deploy/scenario/fault_models.py": (6, FIELD),
    "deploy/scenario/jobs.py": (1, FIELD),
    "deploy/scenario/models.py": (1, FIELD),
    "deploy/own/own_policies.py": (1, FIELD),
    "deploy/scenario/planned_faults.py": (2, FIELD),
    "deploy/scenario/resolve.py": (1, FIELD),
    "deploy/scenario/trace_jobs.py": (1, FIELD),
    "deploy/service/start.py": (1, FIELD),
    "deploy/simulated/measure_apps.py": (1, FIELD),
    "deploy/studies/compare.py": (1, FIELD),
    "scheduler/guard/blame.py": (1, HOOK),
    "scheduler/guard/guarded_policy.py": (1, HOOK),
    "scheduler/guard/own_order.py": (2, HOOK),
    "scheduler/guard/proxies.py": (1, FIELD),
    "scheduler/hooks.py": (2, HOOK),
    "scheduler/models/job_profile.py": (7, FIELD),
    "scheduler/models/resource_profiles.py": (1, FIELD),
    "scheduler/simulate/compiled/contended/flow_arrays.py": (1, FIELD),
    "scheduler/simulate/compiled/covers.py": (2, FIELD),
    "scheduler/simulate/loading/task_tables.py": (1, FIELD),
    "scheduler/simulate/row_frames.py": (1, FIELD),
    "tasks/discover.py": (1, IMPORT),
    "tasks/own/user_class.py": (2, IMPORT),
    "tasks/traces/describe.py": (1, FIELD),
}
"""How often a file may call `getattr` with a name that is no literal, and why. Lower a number when a call goes."""


def chosen_by_name(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of `getattr` whose attribute name is not a literal."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(called, ast.Name) and called.id == "getattr":
            yield from [] if isinstance(node.args[1], ast.Constant) else [node]


def test_few_things_are_chosen_by_a_name_that_is_data() -> None:
    counts = {name_of(path): len(list(chosen_by_name(tree_of(path)))) for path in modules()}
    more = {file: count for file, count in counts.items() if count > CHOSEN_BY_NAME.get(file, (0, ""))[0]}
    assert more == {}, "use a table or a match statement, or say in CHOSEN_BY_NAME why not"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("getattr(policy, 'tick', None)", 0),
        ("getattr(self, f'_on_{kind}')(raw)", 1),
        ("getattr(getattr(a, name), 'b')", 1),
        ("x.getattr(a, name)", 0),
    ],
)
def test_a_call_by_name_is_seen(code: str, count: int) -> None:
    assert len(list(chosen_by_name(ast.parse(code)))) == count
